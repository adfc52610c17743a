import type { ReactNode } from "react";

const CELL = { padding: "4px 14px 4px 0", textAlign: "left" as const, whiteSpace: "nowrap" as const };

/** Numbers to the right, with digits grouped; anything else as it is. */
export function Table({ head, rows }: { head: string[]; rows: ReactNode[][] }) {
  return (
    <div style={{ overflowX: "auto" }}>
      <table style={{ borderCollapse: "collapse", fontSize: "0.9em" }}>
        <thead>
          <tr>{head.map((name) => <th key={name} scope="col" style={{ ...CELL, opacity: 0.7 }}>{name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} style={{ borderTop: "1px solid color-mix(in srgb, currentColor 15%, transparent)" }}>
              {row.map((cell, column) => (
                <td key={column} style={{ ...CELL, textAlign: typeof cell === "number" ? "right" : "left" }}>
                  {typeof cell === "number" ? cell.toLocaleString("en") : cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
