import { AuditPage } from "./AuditPage";
import { CheckpointPage } from "./CheckpointPage";
import { FlowsPage } from "./FlowsPage";
import { FlowsStrip } from "./FlowsStrip";
import { FlowTab } from "./FlowTab";
import { MirrorsPage } from "./MirrorsPage";
import { QuarantinePage } from "./QuarantinePage";
import { RunTab } from "./RunTab";
import { TracePage } from "./TracePage";

type Props = { dagId?: string; runId?: string };

/** The host gives no ids to some destinations; its address always holds them. */
function fromAddress(): { dagId: string; runId: string } {
  const found = /\/dags\/([^/]+)(?:\/runs\/([^/]+))?/.exec(window.location.pathname);
  return { dagId: decodeURIComponent(found?.[1] ?? ""), runId: decodeURIComponent(found?.[2] ?? "") };
}

/** The host loads one bundle for all pages and tabs; the address says which of them it is. */
export default function Databus(props: Props) {
  const address = fromAddress();
  const dagId = props.dagId ?? address.dagId;
  const runId = props.runId ?? address.runId;
  const tab = /\/plugin\/databus-(trace|audit|mirrors|checkpoint|quarantine)$/.exec(window.location.pathname)?.[1];
  if (!dagId && !window.location.pathname.includes("/plugin/")) return <FlowsStrip />;
  if (!dagId) return tab === "trace" ? <TracePage /> : tab === "audit" ? <AuditPage /> : tab === "mirrors" ? <MirrorsPage /> : <FlowsPage />;
  if (tab === "checkpoint") return <CheckpointPage key={dagId} dagId={dagId} />;
  if (tab === "quarantine") return <QuarantinePage key={dagId} dagId={dagId} />;
  if (!runId) return <FlowTab key={dagId} dagId={dagId} />;
  return <RunTab key={`${dagId}/${runId}`} dagId={dagId} runId={runId} />;
}
