import type { Run } from "./run";

const WIDTH = 230;
const HEIGHT = 38;
const GAP = { x: 120, y: 14 };

/** Tables → flow → outputs: three columns, so that their places need no layout library. */
export function LineageGraph({ graph }: { graph: Run["graph"] }) {
  const columns = [0, 1, 2].map((column) => graph.nodes.filter((node) => node.column === column));
  const rows = Math.max(1, ...columns.map((nodes) => nodes.length));
  const height = rows * (HEIGHT + GAP.y) + GAP.y;
  const place = new Map<string, { x: number; y: number }>();
  columns.forEach((nodes, column) =>
    nodes.forEach((node, row) => {
      const free = height - nodes.length * (HEIGHT + GAP.y) + GAP.y;
      place.set(node.id, { x: column * (WIDTH + GAP.x), y: free / 2 + row * (HEIGHT + GAP.y) });
    }),
  );
  const width = 3 * WIDTH + 2 * GAP.x;
  return (
    <svg role="img" aria-label="lineage" viewBox={`-1 0 ${width + 2} ${height}`} style={{ width: "100%", maxWidth: width }}>
      {graph.edges.map((edge) => {
        const from = place.get(edge.from);
        const to = place.get(edge.to);
        if (!from || !to) return null;
        const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
        const middle = (x1 + x2) / 2;
        return (
          <g key={`${edge.from}>${edge.to}`}>
            <path d={`M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`} fill="none" stroke="currentColor" opacity="0.4" />
            <text x={edge.from === "flow" ? x2 - 6 : x1 + 6} y={(edge.from === "flow" ? y2 : y1) - 5}
              textAnchor={edge.from === "flow" ? "end" : "start"} fill="currentColor" style={{ fontSize: 11 }}>
              {edge.rows.toLocaleString("en")}
            </text>
          </g>
        );
      })}
      {graph.nodes.map((node) => {
        const at = place.get(node.id);
        if (!at) return null;
        return (
          <g key={node.id} transform={`translate(${at.x},${at.y})`} data-testid={`node ${node.id}`}>
            <title>{`${node.kind}: ${node.label}`}</title>
            <rect width={WIDTH} height={HEIGHT} rx="6" fill="none" stroke={node.kind === "quarantine" ? "#c05621" : "currentColor"} />
            <text x="10" y="15" opacity="0.7" fill="currentColor" style={{ fontSize: 10 }}>{node.kind}</text>
            <text x="10" y="30" fill="currentColor" style={{ fontSize: 13 }}>
              {node.label.length > 30 ? `${node.label.slice(0, 29)}…` : node.label}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
