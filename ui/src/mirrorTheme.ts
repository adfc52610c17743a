/** What the page of mirrors adds to the theme: cells of the matrix, and a line of figures in each. */
export const MIRRORS = `
.databus .matrix td{white-space:normal;vertical-align:top;height:auto;min-width:250px;padding:8px;border-left:1px solid var(--border)}
.databus .matrix th[scope=row]{vertical-align:top;padding-top:14px;font-size:14px;color:var(--fg)}.databus .matrix thead th{font-size:14px;color:var(--fg)}
.databus .matrix td.own,.databus .matrix td.none{color:var(--fg-muted);font-size:12px;text-align:center;vertical-align:middle}.databus .matrix td.own{background:var(--muted)}
.databus .copy{border:1px solid var(--border);border-radius:8px;padding:8px 12px;display:grid;gap:6px;background:var(--bg)}.databus .copy+.copy{margin-top:8px}
.databus .copy[data-tone=bad]{background:var(--red-bg);border-color:var(--red)}.databus .copy[data-tone=warn]{background:var(--amber-bg);border-color:var(--amber)}
.databus .copy[data-chosen]{outline:2px solid var(--blue);outline-offset:1px}.databus .copy .first{display:flex;justify-content:space-between;gap:8px;flex-wrap:wrap}
.databus .copy .late{font-size:16px;font-weight:600;font-variant-numeric:tabular-nums}.databus .copy .figures{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;font-variant-numeric:tabular-nums}
.databus .copy .figures dt,.databus .copy .figures dd{display:inline}.databus .copy .figures dt{color:var(--fg-muted);margin-right:4px}.databus .copy .figures dd{font-weight:600}
.databus .copy .ways{display:flex;gap:12px;font-size:12px;align-items:center}.databus .copy .ways button{height:24px;font-size:12px;padding:0 8px;margin-left:auto}
.databus .both{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:12px;align-items:start}.databus .both .card{display:grid;gap:8px}
.databus .told output{font-family:ui-monospace,monospace;font-weight:600}
@media(max-width:1100px){.databus .both{grid-template-columns:minmax(0,1fr)}}
`;
