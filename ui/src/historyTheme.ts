/** What the pages of checks, ledger and audit add to the theme. */
export const HISTORY = `
.databus .views{display:inline-flex;flex-wrap:wrap;justify-self:start;border:1px solid var(--border);border-radius:4px;overflow:hidden;background:var(--bg)}
.databus .views a{padding:5px 12px;color:var(--fg);font-size:13px;text-decoration:none;border-right:1px solid var(--border)}.databus .views a:last-child{border-right:0}
.databus .views a[aria-current]{background:var(--solid);color:#fff;font-weight:600}.databus .views a:focus-visible{outline-offset:-3px}
.databus td.why{white-space:normal;overflow-wrap:anywhere;min-width:200px}
.databus .band{display:flex;height:88px;align-items:stretch;border:1px solid var(--border);border-radius:4px;background:var(--muted);overflow:hidden}
.databus .band i{flex:1 1 0;min-width:3px;display:flex;flex-direction:column;justify-content:flex-end;position:relative}
.databus .band i[data-at]{outline:2px solid var(--fg);outline-offset:-2px;z-index:1}
.databus .band .dispatched,.databus .key .dispatched{background:var(--blue)}.databus .band .filtered,.databus .key .filtered{background:var(--border)}
.databus .band .quarantined,.databus .key .quarantined{background:var(--amber);min-height:5px}
.databus .band .gap,.databus .key .gap{background:repeating-linear-gradient(45deg,var(--red) 0 3px,var(--bg) 3px 6px);min-width:5px}
.databus .band .unknown,.databus .key .unknown{background:repeating-linear-gradient(90deg,var(--red) 0 2px,var(--bg) 2px 4px);min-width:5px}
.databus .band .pending,.databus .key .pending{background:repeating-linear-gradient(45deg,var(--fg-muted) 0 2px,var(--bg) 2px 6px)}
.databus .band .tick{position:absolute;top:0;left:0;right:0;height:8px;background:var(--red)}
.databus .key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px}.databus .key i{display:inline-block;width:14px;height:10px;margin-right:4px;min-height:0!important}
.databus td.check{white-space:normal;overflow-wrap:anywhere;min-width:260px}.databus .bars{display:block}.databus .told{min-height:40px;font-size:13px;overflow-wrap:anywhere}
`;
