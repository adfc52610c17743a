import type { ReactNode } from "react";

import { address } from "./api";

export const VIEWS = ["Flow", "Quality", "Ledger", "Audit"] as const;
export type View = (typeof VIEWS)[number];

/** The view that an address names: one of the tab's own. */
export function viewOf(name: string): View {
  return VIEWS.find((known) => known.toLowerCase() === name) ?? "Flow";
}

/** The pages of one flow: views of its tab, and the two that are tabs of the host. */
export function Views({ dagId, here, go }: { dagId: string; here: View; go: (view: View) => void }) {
  const tab = `dags/${encodeURIComponent(dagId)}/plugin/databus-`;
  const own = (view: View): ReactNode => (
    <a key={view} href={address(`${tab}flow${view === "Flow" ? "" : `?view=${view.toLowerCase()}`}`)} aria-current={view === here ? "page" : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
        event.preventDefault();
        go(view);
      }}>{view}</a>
  );
  return (
    <nav className="views" aria-label="Pages of the flow" data-testid="views">
      {own("Flow")}
      <a href={address(`${tab}checkpoint`)}>Checkpoint</a>
      <a href={address(`${tab}quarantine`)}>Quarantine</a>
      {own("Quality")}{own("Ledger")}{own("Audit")}
    </nav>
  );
}
