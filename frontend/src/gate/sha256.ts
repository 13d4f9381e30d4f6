/** SHA-256 (FIPS 180-4) of short ASCII texts. The browser's own takes a promise for each hash, which is far slower. */

const BLOCK_BYTES = 64;
const LENGTH_BYTES = 8;

const [ROUNDS, START] = constants();

/** Hashes a fixed text followed by digits, many times. */
export class SaltedHash {
  private readonly bytes: Uint8Array;
  private readonly words = new Int32Array(64);
  private readonly state = new Int32Array(8);

  constructor(private readonly salt: string) {
    this.bytes = new Uint8Array(Math.ceil((salt.length + 32) / BLOCK_BYTES + 1) * BLOCK_BYTES);
    for (let k = 0; k < salt.length; k += 1) {
      this.bytes[k] = salt.charCodeAt(k);
    }
  }

  /** The hash of the salt and a number's digits, as eight words. They are valid until the next call. */
  of(number: number): Int32Array {
    const digits = String(number);
    const length = this.salt.length + digits.length;
    const end = Math.ceil((length + 1 + LENGTH_BYTES) / BLOCK_BYTES) * BLOCK_BYTES;
    for (let k = 0; k < digits.length; k += 1) {
      this.bytes[this.salt.length + k] = digits.charCodeAt(k);
    }
    this.bytes.fill(0, length, end);
    this.bytes[length] = 0x80;
    for (let k = 0, bits = length * 8; bits > 0; k += 1, bits >>>= 8) {
      this.bytes[end - 1 - k] = bits & 0xff;
    }
    this.state.set(START);
    for (let at = 0; at < end; at += BLOCK_BYTES) {
      this.compress(at);
    }
    return this.state;
  }

  private compress(at: number): void {
    const { bytes, state, words } = this;
    for (let k = 0, p = at; k < 16; k += 1, p += 4) {
      words[k] = (bytes[p]! << 24) | (bytes[p + 1]! << 16) | (bytes[p + 2]! << 8) | bytes[p + 3]!;
    }
    for (let k = 16; k < 64; k += 1) {
      const x = words[k - 15]!;
      const y = words[k - 2]!;
      const s0 = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
      const s1 = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
      words[k] = (words[k - 16]! + s0 + words[k - 7]! + s1) | 0;
    }
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    let f = state[5]!;
    let g = state[6]!;
    let h = state[7]!;
    for (let k = 0; k < 64; k += 1) {
      const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[k]! + words[k]!) | 0;
      const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0] = state[0]! + a;
    state[1] = state[1]! + b;
    state[2] = state[2]! + c;
    state[3] = state[3]! + d;
    state[4] = state[4]! + e;
    state[5] = state[5]! + f;
    state[6] = state[6]! + g;
    state[7] = state[7]! + h;
  }
}

function turned(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

/** The first 32 bits of the fractions of cube roots of the first 64 primes, and of square roots of the first 8. */
function constants(): [Int32Array, Int32Array] {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n += 1) {
    if (primes.every((prime) => n % prime !== 0)) {
      primes.push(n);
    }
  }
  const bits = (root: number): number => ((root % 1) * 2 ** 32) | 0;
  return [Int32Array.from(primes, (n) => bits(Math.cbrt(n))), Int32Array.from(primes.slice(0, 8), (n) => bits(Math.sqrt(n)))];
}
