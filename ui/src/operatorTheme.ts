/** What the pages of operators add to the theme: facts, buttons that change something, dialogs, two columns. */
export const OPERATORS = `
.databus .facts{display:flex;flex-wrap:wrap;border:1px solid var(--border);border-radius:8px;background:var(--bg)}
.databus .facts>div{padding:8px 16px;border-right:1px solid var(--border);min-width:120px}
.databus .facts>div:last-child{border-right:0}.databus .facts dt{font-size:12px;font-weight:600;color:var(--fg-muted)}
.databus .facts dd{font-size:16px;font-weight:600;overflow-wrap:anywhere}.databus .facts .note{font-weight:400}
.databus .warn{color:var(--amber)}.databus .mono{font-family:ui-monospace,monospace;font-size:13px}
.databus .act{background:var(--solid);border-color:var(--solid);color:#fff}.databus button:disabled{opacity:.55;cursor:not-allowed}
.databus .plain{border:0;background:none;color:var(--blue);height:auto;padding:0}
.databus dialog{border:1px solid var(--border);border-radius:8px;background:var(--bg);color:var(--fg);width:min(1000px,94vw);max-height:90vh;padding:0;margin:auto}
.databus dialog::backdrop{background:oklch(.23 .03 266 / .48)}
.databus dialog form{padding:16px 24px;display:grid;gap:12px}.databus dialog footer{display:flex;gap:8px;justify-content:flex-end;align-items:center}
.databus dialog label{display:grid;gap:4px;font-weight:600;font-size:12px}.databus dialog input,.databus dialog select{width:100%}
.databus dialog label.tick{display:flex;align-items:center;gap:8px}.databus dialog label.tick input{width:auto}
.databus .two{display:grid;grid-template-columns:minmax(240px,1fr) 3fr;gap:16px;align-items:start}
.databus .cause{display:grid;grid-template-columns:1fr auto;gap:2px 8px;width:100%;height:auto;padding:8px 12px;text-align:left;border-radius:0;border-width:0 0 1px}
.databus .cause[aria-pressed=true]{background:var(--muted);color:var(--fg);box-shadow:inset 4px 0 var(--blue)}
.databus td.payload{white-space:pre-wrap;overflow-wrap:anywhere;min-width:240px;font-family:ui-monospace,monospace;font-size:12px}
.databus td.long{white-space:normal;overflow-wrap:anywhere}.databus h2{font-size:16px;font-weight:600}
@media(max-width:900px){.databus .two{grid-template-columns:1fr}}
`;
