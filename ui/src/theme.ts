/** Colours of Airflow's own palette under names of meaning, in both of its themes; states carry a sign and a word too. */
export const THEME = `
.databus{--bg:#fff;--muted:oklch(.955 .006 253);--fg:oklch(.23185 .0323 266.44);--fg-muted:oklch(.45 .055 251);--border:oklch(.85 .016 253);
--blue:oklch(.546 .245 262.881);--solid:oklch(.469 .084 257.657);--cyan:oklch(.45 .085 224.283);--red:oklch(.505 .213 27.518);--red-bg:oklch(.971 .013 17.38);
--amber:oklch(.469 .144 45.164);--amber-bg:oklch(.982 .013 83.915);--line:oklch(.809 .105 251.813);--soft:oklch(.956 .045 203.388);--green-bg:oklch(.982 .018 155.826);--green:oklch(.47 .2 149);color:var(--fg);font-size:14px;padding:24px;display:grid;gap:12px}
.dark .databus{--bg:oklch(.205 .03 262);--muted:oklch(.28 .035 251);--fg:oklch(.985 .004 253);--fg-muted:oklch(.75 .025 252);--border:oklch(.4 .045 253);
--blue:oklch(.809 .105 251.813);--cyan:oklch(.865 .127 207.078);--red:oklch(.808 .114 19.571);--red-bg:oklch(.255 .055 22);
--amber:oklch(.857 .118 76.815);--amber-bg:oklch(.25 .026 65);--line:oklch(.488 .16 260);--soft:oklch(.302 .056 229.695);--green-bg:oklch(.266 .065 152.934);--green:oklch(.75 .18 153)}
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
.databus .spark{display:inline-flex;align-items:center;gap:4px;min-height:24px}.databus .why{white-space:normal;max-width:44em}.databus .why b{color:var(--fg)}
.databus pre{background:var(--muted);padding:16px;border-radius:8px;overflow-x:auto;font-size:13px}
.databus h1{font-size:20px;font-weight:600}.databus [role=alert]{color:var(--red)}
.databus h2{font-size:16px;font-weight:600}.databus h3{font-size:14px;font-weight:600}.databus p,.databus dl,.databus ul,.databus ol{margin:0}
.databus .hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.databus .loading{min-height:240px;color:var(--fg-muted)}
.databus .tabs{display:flex;gap:4px;border-bottom:1px solid var(--border)}.databus .tabs a{padding:8px 16px;color:var(--fg);font-weight:600;text-decoration:none}
.databus .tabs a[aria-current]{box-shadow:inset 0 -3px var(--blue)}
.databus .card{border:1px solid var(--border);border-radius:8px;background:var(--bg);padding:12px 16px;min-width:0}.databus .card summary{cursor:pointer}
.databus .failure{display:grid;gap:8px}.databus code,.databus .place{font-family:ui-monospace,monospace;font-size:12px}.databus .wrap{white-space:normal;overflow-wrap:anywhere}
.databus .pill{font-weight:600;padding:2px 10px;border-radius:12px;border:1px solid currentColor;font-size:13px}
.databus [data-tone=bad].pill{color:var(--red)}.databus [data-tone=warn].pill{color:var(--amber)}.databus [data-tone=work].pill{color:var(--cyan)}.databus [data-tone=good].pill{color:var(--green)}
.databus .banner{display:flex;gap:12px;align-items:center;padding:10px 16px;border-radius:4px;background:var(--muted);box-shadow:inset 4px 0 var(--fg-muted)}.databus .banner .end{font-size:14px;white-space:nowrap}
.databus .banner[data-tone=bad]{background:var(--red-bg);box-shadow:inset 4px 0 var(--red)}.databus .banner[data-tone=warn]{background:var(--amber-bg);box-shadow:inset 4px 0 var(--amber);color:var(--fg)}
.databus .facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));border:1px solid var(--border);border-radius:8px;background:var(--bg)}
.databus .facts div{padding:10px 12px;border-left:1px solid var(--border)}.databus .facts div:first-child{border-left:0}.databus .facts dt{font-size:12px;font-weight:600;color:var(--fg-muted)}
.databus .facts dd{margin:0}.databus .facts .state{font-size:16px;font-weight:600;font-variant-numeric:tabular-nums;display:block;white-space:nowrap}
.databus .graph{display:flex;align-items:center;padding:16px;min-width:900px}.databus .graph .node{border:1px solid var(--border);border-radius:8px;padding:8px 10px;width:100%;min-width:0;background:var(--bg)}
.databus .graph>.node,.databus .graph>.stack{flex:1 1 190px;min-width:0}.databus .graph .sinks{flex:2 1 360px;min-width:0;list-style:none;padding:0;display:grid;gap:8px}
.databus .sinks li{display:flex;align-items:center}.databus .sinks li+li{position:relative}.databus .node p{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.databus .node .kind{display:flex;justify-content:space-between;gap:8px;font-size:12px;color:var(--fg-muted)}.databus .node .kind .state{font-size:12px;color:var(--green)}
.databus .node .name{font-weight:600;white-space:normal;overflow-wrap:anywhere}.databus .node .line{font-size:12px}.databus .node[data-tone=bad]{border-color:var(--red);background:var(--red-bg);box-shadow:inset 4px 0 var(--red)}
.databus .node[data-tone=warn]{border-color:var(--amber);background:var(--amber-bg)}.databus .node[data-tone=bad] .state{color:var(--red)}.databus .node[data-tone=warn] .state{color:var(--amber)}
.databus .drop{width:1px;height:14px;background:var(--border);margin:0 auto}.databus .edge{flex:0 0 80px;text-align:center;font-size:12px;font-weight:600;padding:0 2px;font-variant-numeric:tabular-nums}
.databus .edge i{display:block;background:var(--line);margin:3px 0}.databus .edge.idle i{height:0;background:none;border-top:2px dashed var(--border)}.databus .edge.idle{color:var(--fg-muted);font-weight:400}
.databus .edge.blocked i{background:var(--red)}.databus .edge .state{color:var(--red)}
.databus .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:12px}.databus .chart svg{display:block;max-width:100%;font-size:11px}.databus .chart text{fill:var(--fg-muted)}
.databus .mark line{stroke:var(--fg-muted)}.databus .mark[data-tone=bad] line{stroke:var(--red)}.databus .mark[data-tone=warn] line{stroke:var(--amber)}.databus .chart .mark text{fill:var(--fg)}
.databus .marks{list-style:none;padding:0;font-size:13px;display:grid;gap:2px}.databus .marks time{color:var(--fg-muted);font-variant-numeric:tabular-nums}.databus .marks .state{font-size:13px;gap:4px}
.databus .dense th,.databus .dense td{height:30px;padding:3px 10px;font-size:13px}.databus .legend{display:flex;gap:10px;flex-wrap:wrap}.databus .stages{display:inline-flex;height:10px}
.databus .stage{display:inline-block;min-width:1px;background:var(--fg-muted)}.databus .legend .stage{width:9px;height:9px}.databus .stage.read{background:var(--blue)}.databus .stage.dispatch{background:var(--cyan)}
.databus .stage.check{background:var(--fg)}.databus .stage.commit{background:var(--line)}.databus .stage.record{background:var(--border)}
.databus .ask{display:flex;gap:8px}.databus .ask input{flex:1;min-width:0;font-family:ui-monospace,monospace;height:40px}.databus .ask select,.databus .ask button{height:40px}
.databus .primary{background:var(--solid);color:#fff;border-color:var(--solid);font-weight:600;padding:0 20px}.databus .understands{font-size:12px;color:var(--fg-muted)}
.databus .chip{padding:1px 8px;border-radius:4px;background:var(--muted);color:var(--fg);font-size:12px}.databus .chip[data-on]{color:var(--blue);font-weight:600}
.databus .trace{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:12px;align-items:start}.databus .head{padding-bottom:8px;border-bottom:1px solid var(--border)}
.databus .steps{list-style:none;padding:8px 0}.databus .steps li{display:grid;grid-template-columns:32px minmax(0,1fr) minmax(40px,170px) 160px;gap:4px 12px;padding:8px 0;position:relative}
.databus .steps li.mirror{padding-left:32px}.databus .icon{width:28px;height:28px;border:2px solid var(--blue);border-radius:50%;display:grid;place-items:center;color:var(--blue);background:var(--bg);z-index:1}
.databus .steps li:not(:last-child)::before{content:"";position:absolute;left:13px;top:34px;bottom:-8px;border-left:2px solid var(--border)}.databus [data-tone=warn] .icon{border-color:var(--amber);color:var(--amber)}
.databus .steps li.mirror:not(:last-child)::before{top:-8px}.databus .steps .place{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.databus .axis{position:relative;height:2px;background:var(--border);margin-top:14px}.databus .axis i{position:absolute;top:-4px;height:10px;background:var(--blue);border-radius:2px}
.databus [data-tone=warn] .axis i{background:var(--amber)}.databus .when{text-align:right;font-variant-numeric:tabular-nums;font-size:12px;display:grid;align-content:start}.databus .when b{font-size:14px}
.databus .steps .state{font-size:14px;font-weight:600}.databus .notes{padding:8px 0 8px 20px;list-style:disc;font-size:13px}.databus .foot{border-top:1px solid var(--border);padding-top:8px}
.databus .changed{padding:1px 6px;border-radius:4px}.databus .changed .state{margin-right:4px}.databus .diffs{display:grid;gap:8px}.databus .lock{width:10px;height:11px;fill:currentColor;margin-right:4px}
.databus .counted{display:flex;justify-content:space-between;gap:8px}.databus .counted span{overflow:hidden;text-overflow:ellipsis}.databus .changed[data-tone=bad]{background:var(--red-bg)}.databus .changed[data-tone=good]{background:var(--green-bg)}.databus .changed[data-tone=good] .state{color:var(--green);font-weight:600}
.databus .diff th[scope=row]{font-family:ui-monospace,monospace;font-weight:400;color:var(--fg)}.databus button:disabled{color:var(--fg-muted)}
@media(max-width:1100px){.databus .trace{grid-template-columns:minmax(0,1fr)}}
@media(max-width:1100px){.databus{padding:12px}.databus .wide{display:none}}
`;
