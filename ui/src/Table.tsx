import type { ReactNode } from "react";

const CELL = { padding: "4px 14px 4px 0", verticalAlign: "top" as const, whiteSpace: "nowrap" as const };

/** Numbers to the right, with digits grouped; anything else as it is. Long columns are broken into lines, others are not. */
export function Table({ head, rows, long = [] }: { head: string[]; rows: ReactNode[][]; long?: string[] }) {
  const styles = head.map((name, column) => ({
    ...CELL,
    textAlign: rows.some((row) => typeof row[column] === "number") ? ("right" as const) : ("left" as const),
    ...(long.includes(name) ? { whiteSpace: "normal" as const, overflowWrap: "break-word" as const, minWidth: 60 } : {}),
  }));
  return (
    <div style={{ overflowX: "auto" }}>
      <table style={{ borderCollapse: "collapse", fontSize: "0.9em" }}>
        <thead>
          <tr>{head.map((name, column) => <th key={name} scope="col" style={{ ...styles[column], opacity: 0.7 }}>{name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} style={{ borderTop: "1px solid color-mix(in srgb, currentColor 15%, transparent)" }}>
              {row.map((cell, column) => (
                <td key={column} style={styles[column]}>
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
