import { AuditView } from "./AuditView";
import { FlowPage } from "./FlowPage";
import { LedgerPage } from "./LedgerPage";
import { HISTORY } from "./historyTheme";
import { useAddress } from "./page";
import { QualityPage } from "./QualityPage";
import { THEME } from "./theme";
import { Views, viewOf } from "./views";

/** The tab of a flow's DAG: the flow itself, what its checks found, its ledger, and who did what. */
export function FlowTab({ dagId }: { dagId: string }) {
  const [name, setName] = useAddress("view");
  const here = viewOf(name);
  const views = <Views dagId={dagId} here={here} go={(view) => setName(view === "Flow" ? "" : view.toLowerCase())} />;
  if (here === "Flow") return <FlowPage dagId={dagId} views={views} />;
  return (
    <section className="databus" data-testid={`databus-${here.toLowerCase()}`}>
      <style>{THEME + HISTORY}</style>
      {views}
      {here === "Quality" ? <QualityPage dagId={dagId} /> : here === "Ledger" ? <LedgerPage dagId={dagId} /> : <AuditView dagId={dagId} />}
    </section>
  );
}
