// Positions of the parts of a pipeline: groups from left to right, in as many rows as the width needs.

export const SIZE = {
  stage: { width: 112, height: 66 },
  gap: 10,
  padding: 10,
  head: 24,
  foot: 24,
  arrow: 54,
  end: 62,
  row: 40,
  stack: 5,
  margin: 4,
};

/** Number of boxes drawn behind a group to show its other replicas. */
export function behind(replicas) {
  return Math.min(replicas, 4) - 1;
}

function groupSize(group, room) {
  const step = SIZE.stage.width + SIZE.gap;
  const columns = Math.max(1, Math.min(group.stages.length, Math.floor((room - 2 * SIZE.padding + SIZE.gap) / step)));
  const rows = Math.ceil(group.stages.length / columns);
  const width = columns * step - SIZE.gap + 2 * SIZE.padding;
  const height = rows * (SIZE.stage.height + SIZE.gap) - SIZE.gap + SIZE.head + SIZE.foot + SIZE.padding;
  return { columns, width, height };
}

/**
 * Boxes (source, groups, sink) and the arrows between them, for a drawing `width` pixels wide.
 * Each box: kind, index, x, y, width, height; each arrow: its path and the place of its label.
 */
export function layout(groups, width) {
  const room = width - 2 * SIZE.margin - SIZE.stack * 3;
  const boxes = [{ kind: "source", width: SIZE.end, height: 52 }];
  groups.forEach((group, index) => boxes.push({ kind: "group", index, group, ...groupSize(group, room) }));
  boxes.push({ kind: "sink", width: SIZE.end, height: 52 });
  const rows = fillRows(boxes, room);
  let y = SIZE.margin + SIZE.stack * 3;
  for (const row of rows) {
    const height = Math.max(...row.map((box) => box.height));
    for (const box of row) box.y = y + (height - box.height) / 2;
    y += height + SIZE.row + SIZE.stack * 3;
  }
  const arrows = boxes.slice(1).map((box, index) => arrow(boxes[index], box));
  return { boxes, arrows, width, height: y - SIZE.row - SIZE.stack * 3 + SIZE.margin };
}

function fillRows(boxes, room) {
  const rows = [[]];
  let x = 0;
  for (const box of boxes) {
    if (x > 0 && x + SIZE.arrow + box.width > room) {
      rows.push([]);
      x = 0;
    }
    box.row = rows.length;
    box.x = SIZE.margin + (x === 0 ? 0 : x + SIZE.arrow);
    x = box.x - SIZE.margin + box.width;
    rows[rows.length - 1].push(box);
  }
  return rows;
}

function arrow(from, to) {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  if (from.row === to.row) {
    const extra = from.kind === "group" ? SIZE.stack * behind(from.group.replicas) : 0;
    return { path: `M${x1 + extra + 3} ${y1}H${x2 - 5}`, x: (x1 + extra + x2) / 2 - 4, y: y1 };
  }
  const [bottom, top] = [from.y + from.height, to.y];
  const middle = bottom + (top - bottom) / 2 - SIZE.stack;
  const [xa, xb] = [from.x + from.width / 2, to.x + to.width / 2];
  return { path: `M${xa} ${bottom + 3}V${middle}H${xb}V${top - 5}`, x: (xa + xb) / 2, y: middle };
}
