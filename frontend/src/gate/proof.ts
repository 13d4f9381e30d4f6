/** Solves the challenge of a gate in short slices, so that the page stays responsive. */

import { SaltedHash } from "./sha256";

export interface Challenge {
  readonly algorithm: string;
  readonly challenge: string;
  readonly maxnumber: number;
  readonly salt: string;
  readonly signature: string;
}

const SLICE_MILLISECONDS = 10;
const NUMBERS_PER_LOOK = 256;

/** The proof to be sent; `null` if no number fits. */
export async function solve(asked: Challenge): Promise<string | null> {
  const wanted = wordsOf(asked.challenge);
  const hash = new SaltedHash(asked.salt);
  for (let number = 0; number <= asked.maxnumber; ) {
    const until = performance.now() + SLICE_MILLISECONDS;
    while (number <= asked.maxnumber && performance.now() < until) {
      const end = Math.min(number + NUMBERS_PER_LOOK, asked.maxnumber + 1);
      for (; number < end; number += 1) {
        const found = hash.of(number);
        if (found[0] === wanted[0] && found.every((word, k) => word === wanted[k])) {
          return written(asked, number);
        }
      }
    }
    await new Promise((done) => setTimeout(done));
  }
  return null;
}

function wordsOf(hex: string): Int32Array {
  return Int32Array.from({ length: 8 }, (_, k) => parseInt(hex.slice(8 * k, 8 * k + 8), 16) | 0);
}

function written(asked: Challenge, number: number): string {
  const { algorithm, challenge, salt, signature } = asked;
  return btoa(JSON.stringify({ algorithm, challenge, number, salt, signature }));
}
