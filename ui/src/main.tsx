import { RunTab } from "./RunTab";

type Props = { dagId?: string; runId?: string };

/** The host gives no ids to some destinations; its address always holds them. */
function fromAddress(): { dagId: string; runId: string } {
  const found = /\/dags\/([^/]+)\/runs\/([^/]+)/.exec(window.location.pathname);
  return { dagId: decodeURIComponent(found?.[1] ?? ""), runId: decodeURIComponent(found?.[2] ?? "") };
}

export default function Databus(props: Props) {
  const address = fromAddress();
  const dagId = props.dagId ?? address.dagId;
  const runId = props.runId ?? address.runId;
  return <RunTab key={`${dagId}/${runId}`} dagId={dagId} runId={runId} />;
}
