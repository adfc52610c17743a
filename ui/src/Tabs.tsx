import { address } from "./api";

const PAGES = { Flows: "plugin/databus", Trace: "plugin/databus-trace", Mirrors: "plugin/databus-mirrors", Audit: "plugin/databus-audit" };

/** The pages that are no DAG's. */
export function Tabs({ here }: { here: keyof typeof PAGES }) {
  return (
    <nav className="tabs" aria-label="Databus">
      {Object.entries(PAGES).map(([name, path]) => (
        <a key={name} href={address(path)} aria-current={name === here ? "page" : undefined}>{name}</a>
      ))}
    </nav>
  );
}
