import { FlowsPage } from "./FlowsPage";
import { RunTab } from "./RunTab";

type Props = { dagId?: string; runId?: string };

/** The host gives no ids to some destinations; its address always holds them. */
function fromAddress(): { dagId: string; runId: string } {
  const found = /\/dags\/([^/]+)\/runs\/([^/]+)/.exec(window.location.pathname);
  return { dagId: decodeURIComponent(found?.[1] ?? ""), runId: decodeURIComponent(found?.[2] ?? "") };
}

/** The host loads one bundle for the page of all flows and for the tab on a run; an address with a run is the tab's. */
export default function Databus(props: Props) {
  const address = fromAddress();
  const dagId = props.dagId ?? address.dagId;
  const runId = props.runId ?? address.runId;
  if (!dagId) return <FlowsPage />;
  return <RunTab key={`${dagId}/${runId}`} dagId={dagId} runId={runId} />;
}
