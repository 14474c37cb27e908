// Stands in for the host's terminal library. The drivers answer through `select` and `input`, so nothing is ever drawn.
function undrawn(): never {
  throw new Error("the driver has no terminal");
}
export const matchesKey = undrawn;
export const truncateToWidth = undrawn;
export const wrapTextWithAnsi = undrawn;
