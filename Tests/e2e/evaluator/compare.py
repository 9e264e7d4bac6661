#!/usr/bin/env python3
"""Compares `stalecast evaluate` with the slow evaluator on random cases.

  python3 Tests/e2e/evaluator/compare.py .build/release/stalecast [--cases 2000] [--seed 1]

Ends with 1 and the first few differences when there are any.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import cases
import slow_evaluator

CONTEXTS_PER_TEMPLATE = 20


def run(binary, directory, template, contexts):
    template_path, contexts_path = directory / "template.json", directory / "contexts.jsonl"
    template_path.write_text(json.dumps(template))
    contexts_path.write_text("".join(json.dumps(context) + "\n" for context in contexts))
    command = [binary, "evaluate", "--json", "--template", template_path, "--contexts", contexts_path]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{finished.stderr}\n{json.dumps(template, indent=1)}")
    return [json.loads(line) for line in finished.stdout.splitlines()]


def comparable(result):
    notes = {}
    for item in result.get("rolloutMetadata", []):
        notes["rollout", item["rolloutId"], item["variantId"]] = item["affectedParameterKeys"]
    for item in result.get("experimentDescriptions", []):
        notes["experiment", item["experimentId"], item["variantId"]] = item["affectedParameterKeys"]
    matched = {condition["name"]: condition["matched"] for condition in result["conditions"]}
    return {"matched": matched, "entries": result["entries"], "notes": notes}


def describe(template, context, expected, found):
    lines = [f"context {json.dumps(context, ensure_ascii=False)}"]
    for condition in template["conditions"]:
        name = condition["name"]
        if expected["matched"][name] != found["matched"][name]:
            lines.append(f"  {condition['expression']}: expected {expected['matched'][name]}")
    for part in ("entries", "notes"):
        if expected[part] != found[part]:
            lines.append(f"  {part}: expected {expected[part]}\n  {part}: found    {found[part]}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    source = random.Random(options.seed)
    differences, done, verdicts = [], 0, [0, 0]
    with tempfile.TemporaryDirectory() as directory:
        while done < options.cases:
            template = cases.template(source)
            contexts = [cases.context(source) for _ in range(min(CONTEXTS_PER_TEMPLATE, options.cases - done))]
            results = run(options.binary, Path(directory), template, contexts)
            assert len(results) == len(contexts), "one result per context is expected"
            for context, result in zip(contexts, results):
                expected, found = slow_evaluator.evaluate(template, context), comparable(result)
                for verdict in expected["matched"].values():
                    verdicts[verdict] += 1
                if expected != found:
                    differences.append(describe(template, context, expected, found))
            done += len(contexts)
    print(f"{done} cases, {verdicts[1]} conditions true, {verdicts[0]} false, {len(differences)} differences")
    print("\n".join(differences[:10]))
    sys.exit(1 if differences or not all(verdicts) else 0)


if __name__ == "__main__":
    main()
