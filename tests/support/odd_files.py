"""The same rows in every container of answers."""

import csv
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Rows = Sequence[Mapping[str, Any]]


def as_csv(rows: Rows, delimiter: str = ",") -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(
        stream, list(dict.fromkeys(name for row in rows for name in row)), delimiter=delimiter
    )
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def as_jsonl(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def zipped(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


_PACKAGE = "http://schemas.openxmlformats.org"
_CONTENT = (
    f'<Types xmlns="{_PACKAGE}/package/2006/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)
_RELATED = f'<Relationships xmlns="{_PACKAGE}/package/2006/relationships"><Relationship Id="r1" Type="{{}}" Target="{{}}"/></Relationships>'
_OFFICE = f"{_PACKAGE}/officeDocument/2006/relationships"
_SHEET = f"{_PACKAGE}/spreadsheetml/2006/main"


def as_xlsx(rows: Rows) -> bytes:
    """A workbook with one sheet, whose texts stand in their cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    cells = "".join(
        "<row>"
        + "".join(f'<c t="inlineStr"><is><t>{escape(str(text))}</t></is></c>' for text in line)
        + "</row>"
        for line in lines
    )
    return zipped(
        {
            "[Content_Types].xml": _CONTENT.encode(),
            "_rels/.rels": _RELATED.format(f"{_OFFICE}/officeDocument", "xl/workbook.xml").encode(),
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>'.encode(),
            "xl/_rels/workbook.xml.rels": _RELATED.format(
                f"{_OFFICE}/worksheet", "worksheets/sheet1.xml"
            ).encode(),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{cells}</sheetData></worksheet>'.encode(),
        }
    )


MODELS = ("oak-1", "elm-2", "river-3")
_PROMPTS = ("Why is the sky blue?", "Name three rivers of Europe.", "Write a haiku on rain.", "Sum 2 and 3.")


def long_table(prompt: str, model: str | None, response: str, /, **more: Any) -> list[dict[str, Any]]:
    """A row for each response; ``more``: other columns, as values or made of the row's number."""
    rows = []
    for asked in _PROMPTS:
        for name in MODELS:
            row = {prompt: asked} | ({model: name} if model else {})
            row[response] = (
                f"Answer number {len(rows)}, which is to the point and longer than the prompt itself."
            )
            rows.append(
                row | {key: value(len(rows)) if callable(value) else value for key, value in more.items()}
            )
    return rows


def wide_table(prompt: str, /, *models: str, **more: Any) -> list[dict[str, Any]]:
    """A row for each prompt, and a column for each model."""
    return [
        {prompt: asked}
        | {name: f"Answer of some length, number {n}.{k}" for k, name in enumerate(models)}
        | more
        for n, asked in enumerate(_PROMPTS)
    ]


#: Headers of logs and exports as tools and people write them: prompt, model, response.
_TOOLS = {
    "langfuse": ("input", "metadata.model", "output"),
    "phoenix": ("attributes.input.value", "attributes.llm.model_name", "attributes.output.value"),
    "helicone": ("Request", "Model", "Response"),
    "deepeval": ("input", "model_under_test", "actual_output"),
    "ragas": ("user_input", "llm", "response"),
    "langsmith": ("inputs.question", "name", "outputs.answer"),
    "weave": ("inputs.prompt", "model_ref", "output.text"),
    "braintrust": ("input", "experiment", "output"),
    "openai evals": ("input", "run", "sampled"),
    "litellm": ("messages_text", "model_group", "response_text"),
    "german": ("Frage", "Modell", "Antwort"),
    "spanish": ("Pregunta", "Modelo", "Respuesta"),
    "french": ("Question", "Modèle", "Réponse"),
    "russian": ("Вопрос", "Модель", "Ответ"),
    "chinese": ("问题", "模型", "回答"),
    "japanese": ("質問", "モデル", "回答"),
    "arabic": ("سؤال", "نموذج", "إجابة"),
    "hebrew": ("שאלה", "מודל", "תשובה"),
    "bot": ("instruction", "bot", "reply"),
    "assistant": ("prompt", "assistant", "answer"),
    "LLM": ("prompt", "LLM", "response"),
    "nothing": ("col1", "col2", "col3"),
}
_KINDS = {
    "csv": as_csv,
    "jsonl": as_jsonl,
    "xlsx": as_xlsx,
    "zip": lambda rows: zipped({"data/answers.jsonl": as_jsonl(rows)}),
}


def odd_files() -> dict[str, bytes]:
    """Files of answers with headers that are not documented, each with the responses of `MODELS`."""
    kinds = list(_KINDS.items())
    files = {}
    for k, (tool, headers) in enumerate(_TOOLS.items()):
        name, write = kinds[k % len(kinds)]
        files[f"{tool}.{name}"] = write(long_table(*headers, Nr=lambda number: number))
    plain = ("prompt", None, "response")
    files |= {
        "no model.csv": as_csv(long_table(*plain)),
        "no model.jsonl": as_jsonl(long_table(*plain)),
        "no model.xlsx": as_xlsx(long_table(*plain)),
        "no model.zip": zipped({"x.csv": as_csv(long_table(*plain))}),
        "two candidates.csv": as_csv(long_table("prompt", "llm", "response", model="prod")),
        "two prompts.csv": as_csv(long_table("prompt", "model", "response", question="same")),
        "answer is gold.csv": as_csv(long_table("question", "model", "prediction", answer="42")),
        "scores.csv": as_csv(long_table("task", "llm", "reply", score=lambda number: number % 5)),
        "ids of rows.jsonl": as_jsonl(
            long_table("prompt", "model", "response", task_id=lambda number: number)
        ),
        "categories.xlsx": as_xlsx(long_table("frage", "llm", "antwort", kategorie="Wissen")),
        "semicolons.csv": as_csv(long_table("Frage", "LLM", "Antwort"), ";"),
        "tabs.tsv": as_csv(long_table("Frage", "LLM", "Antwort"), "\t"),
        "list.json": json.dumps(long_table("ask", "engine", "reply")).encode(),
        "wide.csv": as_csv(wide_table("prompt", *MODELS)),
        "wide.xlsx": as_xlsx(wide_table("Frage", *MODELS)),
        "wide with notes.csv": as_csv(wide_table("prompt", *MODELS, rater="Ada")),
        "wide.zip": zipped({"w.csv": as_csv(wide_table("question", *MODELS))}),
        "no header.csv": as_csv(long_table("a", "b", "c")).partition(b"\r\n")[2],
        "lm-eval.jsonl": as_jsonl(
            [
                {"doc_id": k, "resps": [["x"]], "filtered_resps": ["x"], "doc": {}, "arguments": [["1+1?"]]}
                for k in range(3)
            ]
        ),
        "conversations.jsonl": as_jsonl(
            [
                {
                    "llm": name,
                    "conversation": [
                        {"role": "user", "content": "Hi"},
                        {"role": "assistant", "content": name},
                    ],
                }
                for name in MODELS
            ]
        ),
    }
    return files
