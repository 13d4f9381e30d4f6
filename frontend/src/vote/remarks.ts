/** Why somebody voted so: sent a moment after it was said, and in any case before the names are shown. */

import { BRIEF, json, persist } from "./sending";
import type { Stage } from "./stage";

const MOMENT = 700;

export class Remarks {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sent: Promise<unknown> = Promise.resolve();
  private said = "";

  constructor(
    private readonly stage: Stage,
    private readonly failed: () => void,
  ) {
    this.said = JSON.stringify(stage.remark());
  }

  /** Something was ticked or written. */
  changed(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.flush(), MOMENT);
  }

  /** Leave what has not been sent: the vote that it is about is undone. */
  cancel(): void {
    clearTimeout(this.timer);
  }

  /** Send what has not been sent; done once it has arrived, or cannot. */
  flush(): Promise<unknown> {
    clearTimeout(this.timer);
    const remark = this.stage.remark();
    const said = JSON.stringify(remark);
    if (said !== this.said) {
      this.said = said;
      const path = `/api/v1/matchups/${this.stage.matchup}/remark`;
      this.sent = this.sent.then(() => persist(path, json("PUT", remark), BRIEF).catch(this.failed));
    }
    return this.sent;
  }
}
