// The map as pixels: up to 50,000 discs are blended into one image by hand, which takes a few milliseconds on any machine.

export interface Points { x: Float32Array; y: Float32Array; size: Float32Array; colour: Uint8Array; titles: string[] }
export interface Paint { paper: string; ink: string; muted: string; mark: string; colours: string[]; font: string }
export interface Camera { x: number; y: number; k: number }

const CELLS = 96, LABELS = 42, QUARTERS = 4;
type RGB = [number, number, number];
export type Box = [number, number, number, number];

export class Plot {
  camera: Camera = { x: 0, y: 0, k: 1 };
  /** Only points of this colour are bright; -1 for all. */
  only = -1;
  selected = -1;
  near: number[] = [];
  hovered = -1;
  /** Parts of the screen that names stay out of: left, top, right, bottom. */
  reserved: Box[] = [];
  /** How long the last picture took, in milliseconds. */
  took = 0;
  private width = 1;
  private height = 1;
  private ratio = 1;
  private image = new ImageData(1, 1);
  private pixels = new Uint32Array(1);
  private paint!: Paint;
  private rgb: RGB[] = [];
  private paper: RGB = [255, 255, 255];
  private readonly order: Uint32Array;
  private readonly grid: Uint32Array[];
  private readonly stamps = new Map<number, { half: number; mask: Uint8Array }>();
  private readonly widths = new Map<number, number>();
  private readonly pen: CanvasRenderingContext2D;

  constructor(readonly canvas: HTMLCanvasElement, readonly points: Points) {
    this.pen = canvas.getContext("2d", { alpha: false })!;
    // Large ones last, so that they are on top; labels go through the same order backwards.
    this.order = new Uint32Array(points.x.length).map((_, i) => i).sort((a, b) => points.size[a]! - points.size[b]!);
    const cells: number[][] = Array.from({ length: CELLS * CELLS }, () => []);
    for (let i = 0; i < points.x.length; i++) cells[cell(points.y[i]!) * CELLS + cell(points.x[i]!)]!.push(i);
    this.grid = cells.map((ids) => Uint32Array.from(ids));
  }

  get fitting(): number { return 0.45 * Math.min(this.width, this.height); }

  resize(width: number, height: number, ratio: number): void {
    const first = this.width === 1, zoom = this.camera.k / this.fitting;
    [this.width, this.height, this.ratio] = [Math.max(1, width), Math.max(1, height), Math.min(2, ratio)];
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.image = this.pen.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.camera.k = first ? this.fitting : zoom * this.fitting;
  }

  colours(paint: Paint): void {
    this.paint = paint;
    this.paper = parse(paint.paper);
    this.rgb = paint.colours.map(parse);
    this.widths.clear();
  }

  toScreen(i: number): [number, number] {
    return [(this.points.x[i]! - this.camera.x) * this.camera.k + this.width / 2, (this.camera.y - this.points.y[i]!) * this.camera.k + this.height / 2];
  }

  /** Enlarge around a place of the screen. */
  zoom(by: number, px = this.width / 2, py = this.height / 2): void {
    const old = this.camera.k, k = Math.min(400 * this.fitting, Math.max(0.6 * this.fitting, old * by));
    this.camera.x += (px - this.width / 2) * (1 / old - 1 / k);
    this.camera.y -= (py - this.height / 2) * (1 / old - 1 / k);
    this.camera.k = k;
  }

  pan(dx: number, dy: number): void {
    this.camera.x = Math.min(1.3, Math.max(-1.3, this.camera.x - dx / this.camera.k));
    this.camera.y = Math.min(1.3, Math.max(-1.3, this.camera.y + dy / this.camera.k));
  }

  /** The nearest point within some pixels of a place of the screen; -1 if there is none. */
  at(px: number, py: number, reach: number): number {
    const { x, y, k } = this.camera, r = reach / k;
    const [wx, wy] = [x + (px - this.width / 2) / k, y - (py - this.height / 2) / k];
    let best = -1, least = r * r;
    for (let cy = cell(wy - r); cy <= cell(wy + r); cy++) for (let cx = cell(wx - r); cx <= cell(wx + r); cx++) {
      for (const i of this.grid[cy * CELLS + cx]!) {
        const far = (this.points.x[i]! - wx) ** 2 + (this.points.y[i]! - wy) ** 2;
        if (far < least && (this.only < 0 || this.points.colour[i] === this.only)) { least = far; best = i; }
      }
    }
    return best;
  }

  draw(): void {
    const began = performance.now();
    this.pixels.fill(pack(this.paper));
    this.discs();
    this.pen.putImageData(this.image, 0, 0);
    this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.rays();
    this.labels();
    this.took = performance.now() - began;
  }

  private discs(): void {
    const { x, y, k } = this.camera, { ratio, points } = this;
    const [w, h] = [this.canvas.width, this.canvas.height], scale = k * ratio;
    const grown = Math.min(3.2, Math.max(0.75, Math.sqrt(k / this.fitting))) * ratio;
    const [ox, oy] = [w / 2 - x * scale, h / 2 + y * scale];
    for (const i of this.order) {
      const sx = points.x[i]! * scale + ox, sy = oy - points.y[i]! * scale;
      if (sx < -20 || sy < -20 || sx > w + 20 || sy > h + 20) continue;
      const colour = points.colour[i]!, dim = this.only >= 0 && colour !== this.only;
      this.stamp(sx, sy, points.size[i]! * grown, this.rgb[colour]!, dim ? 40 : 205);
    }
  }

  private stamp(sx: number, sy: number, radius: number, [r, g, b]: RGB, strength: number): void {
    const { half, mask } = this.mask(radius), [w, h, pixels] = [this.canvas.width, this.canvas.height, this.pixels];
    const side = 2 * half + 1, left = Math.round(sx) - half, top = Math.round(sy) - half;
    const [x0, x1, y0, y1] = [Math.max(0, -left), Math.min(side, w - left), Math.max(0, -top), Math.min(side, h - top)];
    for (let j = y0; j < y1; j++) {
      let at = (top + j) * w + left + x0, m = j * side + x0;
      for (let i = x0; i < x1; i++, at++, m++) {
        const a = (mask[m]! * strength) >> 8;
        if (a === 0) continue;
        const under = pixels[at]!, ur = under & 255, ug = (under >> 8) & 255, ub = (under >> 16) & 255;
        pixels[at] = 0xff000000 | ((ub + (((b - ub) * a) >> 8)) << 16) | ((ug + (((g - ug) * a) >> 8)) << 8) | (ur + (((r - ur) * a) >> 8));
      }
    }
  }

  /** How much of each pixel a disc covers, by its radius in quarters of a pixel. */
  private mask(radius: number): { half: number; mask: Uint8Array } {
    const key = Math.max(3, Math.round(radius * QUARTERS)), old = this.stamps.get(key);
    if (old) return old;
    const r = key / QUARTERS, half = Math.ceil(r), side = 2 * half + 1, mask = new Uint8Array(side * side);
    for (let j = 0; j < side; j++) for (let i = 0; i < side; i++) mask[j * side + i] = Math.round(255 * Math.min(1, Math.max(0, r + 0.5 - Math.hypot(i - half, j - half))));
    const made = { half, mask };
    this.stamps.set(key, made);
    return made;
  }

  /** Lines from the chosen entity to those that are most alike, and rings around them. */
  private rays(): void {
    const { pen, paint } = this;
    if (this.selected >= 0) {
      const [x, y] = this.toScreen(this.selected);
      pen.strokeStyle = paint.mark;
      pen.lineWidth = 1;
      pen.globalAlpha = 0.55;
      pen.beginPath();
      for (const i of this.near) { const [nx, ny] = this.toScreen(i); pen.moveTo(x, y); pen.lineTo(nx, ny); }
      pen.stroke();
      pen.globalAlpha = 1;
    }
    for (const [i, r] of [...this.near.map((one) => [one, 4.5] as const), [this.selected, 8] as const, [this.hovered, 7] as const]) {
      if (i < 0) continue;
      const [x, y] = this.toScreen(i);
      pen.beginPath();
      pen.arc(x, y, r, 0, 2 * Math.PI);
      pen.strokeStyle = i === this.hovered && i !== this.selected ? paint.ink : paint.mark;
      pen.lineWidth = i === this.selected ? 2.5 : 1.5;
      pen.stroke();
    }
  }

  /** Names, the most connected first, as many as fit without touching each other. */
  private labels(): void {
    const { pen, points, paint } = this, taken: Box[] = [...this.reserved];
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    const put = (i: number, bold: boolean): boolean => {
      const [x, y] = this.toScreen(i);
      if (x < 0 || y < 8 || x > this.width || y > this.height - 8) return false;
      pen.font = `${bold ? 600 : 450} ${bold ? 13 : 12}px ${paint.font}`;
      const wide = this.widths.get(bold ? -i - 1 : i) ?? pen.measureText(points.titles[i]!).width;
      this.widths.set(bold ? -i - 1 : i, wide);
      const left = x + 9 + wide > this.width ? x - 9 - wide : x + 9, box: Box = [left - 6, y - 11, left + wide + 6, y + 11];
      if (!bold && taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) return false;
      taken.push(box);
      pen.strokeStyle = paint.paper;
      pen.lineWidth = 4;
      pen.strokeText(points.titles[i]!, left, y);
      pen.fillStyle = bold ? paint.ink : paint.muted;
      pen.fillText(points.titles[i]!, left, y);
      return true;
    };
    for (const i of [this.selected, this.hovered]) if (i >= 0) put(i, true);
    for (const i of this.near) if (i !== this.hovered) put(i, false);
    const most = this.only >= 0 || this.selected >= 0 ? LABELS / 2 : Math.min(LABELS, Math.round((this.width * this.height) / 22000));
    for (let at = this.order.length - 1, put_ = 0, tried = 0; at >= 0 && put_ < most && tried < 1500; at--) {
      const i = this.order[at]!;
      if (i === this.selected || i === this.hovered || (this.only >= 0 && points.colour[i] !== this.only)) continue;
      const [x, y] = this.toScreen(i);
      if (x < 0 || y < 8 || x > this.width || y > this.height) continue;
      tried++;
      if (put(i, false)) put_++;
    }
  }
}

const cell = (v: number): number => Math.min(CELLS - 1, Math.max(0, Math.floor(((v + 1) / 2) * CELLS)));
const pack = ([r, g, b]: RGB): number => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;

function parse(colour: string): RGB {
  const hex = colour.trim().replace("#", "");
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)) as RGB;
}
