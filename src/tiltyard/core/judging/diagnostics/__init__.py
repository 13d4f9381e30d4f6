"""Diagnostics: what a judge's verdicts say of the judge.

Verdicts are shown to a `VerdictObserver` in any order; it keeps a few whole numbers of each. Out of it
come `JudgeDiagnostics`: shares with prompt-clustered intervals, and `list_judge_findings` drawn from them.
`measure_agreement` compares a judge with people.
"""
