/** Colours of Airflow's own palette under names of meaning, in both of its themes; states carry a sign and a word too. */
export const THEME = `
.databus{--bg:#fff;--muted:oklch(.955 .006 253);--fg:oklch(.23185 .0323 266.44);--fg-muted:oklch(.45 .055 251);--border:oklch(.85 .016 253);
--blue:oklch(.546 .245 262.881);--solid:oklch(.469 .084 257.657);--cyan:oklch(.45 .085 224.283);--red:oklch(.505 .213 27.518);--red-bg:oklch(.971 .013 17.38);
--amber:oklch(.469 .144 45.164);--amber-bg:oklch(.982 .013 83.915);--green:oklch(.47 .2 149);color:var(--fg);font-size:14px;padding:24px;display:grid;gap:12px}
.dark .databus{--bg:oklch(.205 .03 262);--muted:oklch(.28 .035 251);--fg:oklch(.985 .004 253);--fg-muted:oklch(.75 .025 252);--border:oklch(.4 .045 253);
--blue:oklch(.809 .105 251.813);--cyan:oklch(.865 .127 207.078);--red:oklch(.808 .114 19.571);--red-bg:oklch(.255 .055 22);
--amber:oklch(.857 .118 76.815);--amber-bg:oklch(.25 .026 65);--green:oklch(.75 .18 153)}
.databus a{color:var(--blue)}.databus a:hover{text-decoration:underline}
.databus .bar{display:flex;flex-wrap:wrap;gap:8px 12px;align-items:center}
.databus .end{margin-left:auto;color:var(--fg-muted);font-size:12px}
.databus input,.databus select,.databus button{height:32px;border:1px solid var(--border);border-radius:4px;background:var(--bg);color:var(--fg);padding:0 10px;font-size:14px}
.databus input{width:280px}.databus :focus-visible{outline:2px solid var(--blue);outline-offset:1px}
.databus button[aria-pressed=true]{background:var(--solid);border-color:var(--solid);color:#fff}
.databus .room{overflow-x:auto;border:1px solid var(--border);border-radius:8px;background:var(--bg)}
.databus table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.databus th{font-size:12px;text-align:left;color:var(--fg-muted);font-weight:600}
.databus th,.databus td{padding:6px 12px;white-space:nowrap;height:40px}.databus th{height:30px}
.databus tbody tr{border-top:1px solid var(--border)}
.databus .n{text-align:right}.databus .note{display:block;color:var(--fg-muted);font-size:12px}
.databus .state{font-weight:600;display:inline-flex;gap:8px}
.databus tr[data-tone=bad]{background:var(--red-bg);box-shadow:inset 4px 0 var(--red)}.databus tr[data-tone=warn]{background:var(--amber-bg);box-shadow:inset 4px 0 var(--amber)}
.databus [data-tone=bad] .state{color:var(--red)}.databus [data-tone=warn] .state{color:var(--amber)}.databus [data-tone=work] .state{color:var(--cyan)}
.databus [data-tone=good] .sign{color:var(--green)}.databus [data-tone=good] .state,.databus [data-tone=calm] .state{font-weight:400}
.databus .why{white-space:normal;max-width:44em}.databus .why b{color:var(--fg)}
.databus pre{background:var(--muted);padding:16px;border-radius:8px;overflow-x:auto;font-size:13px}
.databus h1{font-size:20px;font-weight:600}.databus [role=alert]{color:var(--red)}
@media(max-width:1100px){.databus{padding:12px}.databus .wide{display:none}}
`;
