#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small models of trees with LightGBM, XGBoost and CatBoost, as oracles for the readers of their files.

    tree_files.py write FOLDER              the models, inputs and answers of tests/nn/data/trees
    tree_files.py compare LIBRARY SECONDS   random models of random options: compares all bits with libsluice_c.so

Needs numpy, lightgbm, xgboost and catboost. `compare` prints one line for each kind of model: how many models and
answers have the library's bits, and the largest difference of the others, in units of the last place and relative.
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
warnings.filterwarnings("ignore")


def features(numbers, rows, plain, categories):
    """Numbers with what trees treat in their own way: missing ones, zeros of both signs, nearly zeros."""
    x = numbers.normal(size=(rows, plain + len(categories)))
    x[numbers.random(x.shape) < 0.2] = 0
    x[numbers.random(x.shape) < 0.02] = -0.0
    x[numbers.random(x.shape) < 0.02] = 3e-36
    x[numbers.random(x.shape) < 0.02] = -3e-36
    for at, count in enumerate(categories):
        x[:, plain + at] = numbers.integers(0, count, rows)
    x[numbers.random(x.shape) < 0.1] = np.nan
    return x


def labels(numbers, x, kind, classes):
    y = np.nan_to_num(x) @ numbers.normal(size=x.shape[1]) + np.nan_to_num(x[:, 0]) * (np.nan_to_num(x[:, -1]) % 3)
    y += 0.1 * numbers.normal(size=len(y))
    if kind == "class":
        return np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)).astype(float)
    if kind == "count":
        return np.floor(np.exp(np.clip(y / 2, -3, 3)))
    if kind == "part":
        return 1 / (1 + np.exp(-y))
    if kind == "rank":
        return np.clip(np.digitize(y, np.quantile(y, [0.5, 0.8])), 0, 2).astype(float)
    return y


def for_questions(numbers, x, categories):
    """Rows to predict: with categories that were not seen."""
    x = x.copy()
    for at in range(x.shape[1] - len(categories), x.shape[1]):
        x[numbers.random(len(x)) < 0.05, at] = numbers.integers(0, 400)
    return x


# --- LightGBM ------------------------------------------------------------------------------------------------------

LIGHTGBM = {"regression": "number", "regression_l1": "number", "huber": "number", "fair": "number",
            "quantile": "number", "mape": "number", "poisson": "count", "gamma": "positive", "tweedie": "count",
            "binary": "class", "multiclass": "class", "multiclassova": "class", "cross_entropy": "part",
            "cross_entropy_lambda": "part", "lambdarank": "rank", "rank_xendcg": "rank"}


def train_lightgbm(numbers, folder, objective, trees=8, rows=500, plain=4, categories=(), classes=3, **options):
    import lightgbm
    kind = LIGHTGBM[objective]
    classes = 2 if objective == "binary" else classes
    x = features(numbers, rows, plain, categories)
    y = labels(numbers, x, "count" if kind == "positive" else kind, classes) + (kind == "positive")
    parameters = {"objective": objective, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5,
                  "min_data_per_group": 10, "seed": int(numbers.integers(1 << 30)), "deterministic": True, **options}
    if objective.startswith("multiclass"):
        parameters["num_class"] = classes
    of_groups = {"group": [25] * (rows // 25)} if kind == "rank" else {}
    places = list(range(plain, plain + len(categories)))
    data = lightgbm.Dataset(x, y, categorical_feature=places, **of_groups)
    file = folder / "model.txt"
    lightgbm.train(parameters, data, trees).save_model(file)
    questions = for_questions(numbers, x, categories)
    for at in places:  # these are rounded towards 0
        questions[numbers.random(rows) < 0.03, at] = numbers.choice([-0.5, -1.0, 1.7, 1e10, -np.inf, np.inf])
    questions[numbers.random(questions.shape) < 0.005] = np.inf
    return [file], questions, lightgbm.Booster(model_file=file).predict(questions)


def any_lightgbm(numbers, folder):
    objective = numbers.choice(list(LIGHTGBM))
    options = {"num_leaves": int(numbers.choice([2, 4, 15, 31, 60, 120])), "max_bin": int(numbers.choice([15, 255])),
               "learning_rate": float(numbers.choice([0.1, 0.3])), "extra_trees": bool(numbers.integers(2)),
               "zero_as_missing": bool(numbers.random() < 0.3), "use_missing": bool(numbers.random() < 0.8),
               "max_cat_to_onehot": int(numbers.choice([1, 4, 60])), "cat_smooth": 1.0, "cat_l2": 1.0}
    boosting = numbers.choice(["gbdt", "gbdt", "dart", "rf"])
    if boosting == "rf":
        options |= {"bagging_freq": 1, "bagging_fraction": 0.7, "feature_fraction": 0.8}
    options["boosting"] = str(boosting)
    if objective in ("binary", "multiclassova"):
        options["sigmoid"] = float(numbers.choice([1.0, 0.7, 1.234567]))
    if objective == "regression" and numbers.integers(2):
        options["reg_sqrt"] = True
    categories = [int(numbers.choice([3, 10, 100])) for _ in range(numbers.integers(0, 3))]
    made = train_lightgbm(numbers, folder, str(objective), int(numbers.integers(1, 40)), 500,
                          int(numbers.integers(1, 8)), categories, int(numbers.integers(2, 6)), **options)
    return f"LightGBM {objective}", *made


# --- XGBoost -------------------------------------------------------------------------------------------------------

XGBOOST = {"reg:squarederror": "number", "reg:pseudohubererror": "number", "reg:absoluteerror": "number",
           "reg:quantileerror": "number", "reg:squaredlogerror": "count", "reg:logistic": "part",
           "binary:logistic": "class", "binary:logitraw": "class", "binary:hinge": "class", "count:poisson": "count",
           "reg:gamma": "positive", "reg:tweedie": "count", "survival:cox": "positive", "multi:softprob": "class",
           "multi:softmax": "class", "rank:ndcg": "rank", "rank:map": "class", "rank:pairwise": "rank"}


def train_xgboost(numbers, folder, objective, trees=8, rows=500, plain=4, categories=(), classes=3, targets=1,
                  **options):
    import xgboost
    kind = XGBOOST[objective]
    classes = classes if objective.startswith("multi:") else 2
    x = features(numbers, rows, plain, categories).astype(np.float32)
    y = labels(numbers, x, "count" if kind == "positive" else kind, classes) + (kind == "positive")
    if targets > 1:
        y = np.stack([np.roll(y, i) for i in range(targets)], 1)
    types = ["q"] * plain + ["c"] * len(categories)
    parameters = {"objective": objective, "nthread": 1, "verbosity": 0, "seed": int(numbers.integers(1 << 30)),
                  **options}
    if objective.startswith("multi:"):
        parameters["num_class"] = classes
    if objective == "reg:quantileerror":
        parameters["quantile_alpha"] = [0.2, 0.5, 0.9]
    data = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=True, nthread=1)
    if kind == "rank" or objective == "rank:map":
        data.set_group([25] * (rows // 25))
    booster = xgboost.train(parameters, data, trees)
    files = [folder / "model.json", folder / "model.ubj"]
    for each in files:
        booster.save_model(each)
    questions = for_questions(numbers, x, categories)
    of = xgboost.DMatrix(questions, feature_types=types, enable_categorical=True, nthread=1)
    return files, questions, booster.predict(of)


def any_xgboost(numbers, folder):
    objective = str(numbers.choice(list(XGBOOST)))
    method = str(numbers.choice(["hist", "hist", "approx", "exact"]))
    options = {"max_depth": int(numbers.integers(1, 9)), "eta": float(numbers.choice([0.1, 0.3])),
               "tree_method": method, "num_parallel_tree": int(numbers.choice([1, 1, 3])),
               "booster": str(numbers.choice(["gbtree", "gbtree", "dart"])), "subsample": 0.8, "rate_drop": 0.3}
    if method == "hist":
        options |= {"grow_policy": str(numbers.choice(["depthwise", "lossguide"])),
                    "max_cat_to_onehot": int(numbers.choice([1, 4, 60]))}
    if options["booster"] == "gbtree":
        del options["rate_drop"]
    categories = [int(numbers.choice([3, 10, 100])) for _ in range(numbers.integers(0, 3))] if method != "exact" else []
    targets = int(numbers.integers(2, 4)) if objective == "reg:squarederror" and numbers.integers(2) else 1
    if targets == 1 and not objective.startswith(("multi:", "reg:quantile")) and numbers.integers(2):
        options["base_score"] = float(numbers.choice([0.3, 0.5, 0.9]))
    made = train_xgboost(numbers, folder, objective, int(numbers.integers(1, 40)), 500, int(numbers.integers(1, 8)),
                         categories, int(numbers.integers(2, 6)), targets, **options)
    return f"XGBoost {objective}", *made


# --- CatBoost ------------------------------------------------------------------------------------------------------

CATBOOST = {"RMSE": "number", "MAE": "number", "Quantile": "number", "LogCosh": "number", "Poisson": "count",
            "Tweedie:variance_power=1.5": "count", "MultiRMSE": "number", "Logloss": "class", "CrossEntropy": "part",
            "MultiClass": "class", "MultiClassOneVsAll": "class"}


def train_catboost(numbers, folder, loss, trees=8, rows=500, plain=5, classes=3, **options):
    import catboost
    kind = CATBOOST[loss]
    classes = classes if loss.startswith("MultiClass") else 2
    x = features(numbers, rows, plain, ()).astype(np.float32)
    y = labels(numbers, x, kind, classes)
    if loss == "MultiRMSE":
        y = np.stack([y, np.roll(y, 1), -y], 1)
    model = catboost.CatBoost({"loss_function": loss, "iterations": trees, "thread_count": 1, "verbose": False,
                               "random_seed": int(numbers.integers(1 << 30)), "allow_writing_files": False, **options})
    model.fit(x, y)
    file = folder / "model.json"
    model.save_model(str(file), format="json")
    is_probability = kind in ("class", "part")
    how = "Probability" if is_probability else "Exponent" if loss.startswith(("Poisson", "Tweedie")) else "RawFormulaVal"
    questions = for_questions(numbers, x, ())
    # Not a model that is loaded again: CatBoost's reader of JSON changes last digits.
    return [file], questions, model.predict(questions, prediction_type=how, thread_count=1)


def any_catboost(numbers, folder):
    loss = str(numbers.choice(list(CATBOOST)))
    policy = "SymmetricTree" if loss == "MultiRMSE" else str(
        numbers.choice(["SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide"]))
    options = {"grow_policy": policy, "depth": int(numbers.integers(1, 9)), "border_count": int(numbers.choice([8, 254])),
               "nan_mode": str(numbers.choice(["Min", "Max"])), "learning_rate": 0.2}
    if policy == "Lossguide":
        options["max_leaves"] = int(numbers.choice([4, 31, 60]))
    made = train_catboost(numbers, folder, loss, int(numbers.integers(1, 40)), 500, int(numbers.integers(1, 8)),
                          int(numbers.integers(3, 6)), **options)
    return f"CatBoost {loss} {policy}", *made


# --- both commands -------------------------------------------------------------------------------------------------

# What the tests read: a name, and how the model is made.
EXAMPLES = {
    "lightgbm_regression": lambda n, f: train_lightgbm(n, f, "regression", num_leaves=8),
    "lightgbm_binary_categories": lambda n, f: train_lightgbm(
        n, f, "binary", plain=2, categories=(40, 3), num_leaves=8, sigmoid=0.7, max_cat_to_onehot=1, cat_smooth=1.0),
    "lightgbm_multiclass": lambda n, f: train_lightgbm(n, f, "multiclass", trees=4, num_leaves=6),
    "lightgbm_zero_as_missing": lambda n, f: train_lightgbm(
        n, f, "regression", num_leaves=12, zero_as_missing=True),
    "lightgbm_forest": lambda n, f: train_lightgbm(
        n, f, "multiclass", trees=3, num_leaves=6, boosting="rf", bagging_freq=1, bagging_fraction=0.6),
    "lightgbm_poisson": lambda n, f: train_lightgbm(n, f, "poisson", num_leaves=6, use_missing=False),
    "xgboost_categories": lambda n, f: train_xgboost(
        n, f, "binary:logistic", plain=2, categories=(40, 3), max_depth=3, tree_method="hist", max_cat_to_onehot=1),
    "xgboost_multiclass": lambda n, f: train_xgboost(n, f, "multi:softprob", trees=4, max_depth=3),
    "xgboost_poisson": lambda n, f: train_xgboost(n, f, "count:poisson", max_depth=3, booster="dart", rate_drop=0.5),
    "catboost_symmetric": lambda n, f: train_catboost(n, f, "Logloss", depth=3),
    "catboost_depthwise": lambda n, f: train_catboost(n, f, "RMSE", trees=5, depth=3, grow_policy="Depthwise", nan_mode="Max"),
    "catboost_multiclass": lambda n, f: train_catboost(n, f, "MultiClass", trees=4, depth=2),
}


def small(file):
    """A model without what no reader needs, so that the repository stays small."""
    if file.suffix == ".txt":
        text = file.read_text()
        file.write_text(text[:text.index("end of trees")] + "end of trees\n")
    if file.suffix == ".json":
        model = json.loads(file.read_text())
        if "model_info" in model:
            loss = model["model_info"]["params"]["loss_function"]
            model["model_info"] = {"params": {"loss_function": loss}}
            for each in model["features_info"]["float_features"]:
                each["borders"] = []
            for tree in model.get("oblivious_trees", []):
                tree.pop("leaf_weights", None)
        file.write_text(json.dumps(model, separators=(",", ":")))


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, train) in enumerate(EXAMPLES.items()):
        with tempfile.TemporaryDirectory() as made:
            files, questions, answers = train(np.random.default_rng(seed), pathlib.Path(made))
            for each in files:
                if each.suffix != ".json" or not name.startswith("xgboost"):
                    small(each)
                (folder / f"{name}{each.suffix}").write_bytes(each.read_bytes())
        np.save(folder / f"{name}.inputs.npy", questions[:40])
        np.save(folder / f"{name}.answers.npy", answers[:40].reshape(40, -1))


def ulps(a, b):
    """How many numbers of the type lie between, at most."""
    kind = np.int32 if a.dtype == np.float32 else np.int64
    def places(of):
        raw = of.view(kind).astype(object)
        return np.where(of.view(kind) < 0, np.iinfo(kind).min - raw, raw)
    return int(np.abs(places(a) - places(b)).max())


def compare(library, seconds, seed):
    sys.path.insert(0, str(ROOT / "bench/zoo"))
    import worker
    engine = worker.Sluice(1, library)
    numbers = np.random.default_rng(seed)
    found = collections.defaultdict(lambda: [0, 0, 0, 0, 0, 0.0])
    end, failed, trained = time.time() + seconds, 0, 0
    while time.time() < end:
        state = numbers.bit_generator.state
        with tempfile.TemporaryDirectory() as folder:
            try:
                name, files, x, expected = numbers.choice([any_lightgbm, any_xgboost, any_catboost])(
                    numbers, pathlib.Path(folder))
            except Exception as why:  # the library refuses these options
                print("not trained:", str(why).splitlines()[0][:150], file=sys.stderr)
                continue
            trained += 1
            for file in files:
                try:
                    engine.load(str(file))
                    engine.prepare({"input": np.ascontiguousarray(x)})
                    answers = engine.outputs("bound")["predictions"]
                    engine.c.sluice_network_destroy(engine.network)
                except RuntimeError as why:
                    print("REFUSED", name, file.suffix, why, state["state"], file=sys.stderr)
                    failed += 1
                    continue
                wanted = np.ascontiguousarray(expected).reshape(len(x), -1)
                row = found[name + (" " + file.suffix if len(files) > 1 else "")]
                row[0] += 1
                row[2] += wanted.size
                if answers.shape != wanted.shape or answers.dtype != wanted.dtype:
                    print("SHAPE", name, answers.shape, answers.dtype, wanted.shape, wanted.dtype, file=sys.stderr)
                    failed += 1
                    continue
                bits = np.int32 if wanted.dtype == np.float32 else np.int64
                equal = (answers.view(bits) == wanted.view(bits)) | (np.isnan(answers) & np.isnan(wanted))
                row[1] += bool(equal.all())
                row[3] += int(equal.sum())
                if not equal.all():
                    row[4] = max(row[4], ulps(answers, wanted))
                    row[5] = max(row[5], float(np.nanmax(np.abs(answers - wanted) / np.maximum(np.abs(wanted), 1e-300))))
                    print("DIFFERS", name, file.suffix, answers[~equal][:3], wanted[~equal][:3], file=sys.stderr)
                    if keep := os.environ.get("KEEP"):
                        pathlib.Path(keep, file.name).write_bytes(file.read_bytes())
                        np.save(pathlib.Path(keep, "x.npy"), x), np.save(pathlib.Path(keep, "y.npy"), wanted)
    print("| model | files | all bits | answers | equal | most ulp | most relative |\n|---|---|---|---|---|---|---|")
    for name, (models, same, answers, equal, far, relative) in sorted(found.items()):
        print(f"| {name} | {models} | {same} | {answers} | {equal} | {far} | {relative:.1e} |")
    total = np.array([row[:4] for row in found.values()]).sum(0)
    print(f"{trained} models, {total[0]} files: {total[1]} with all bits; {total[3]} of {total[2]} answers; {failed} refused")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("folder", type=pathlib.Path)
    of = commands.add_parser("compare")
    of.add_argument("library")
    of.add_argument("seconds", type=float)
    of.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "write":
        write(given.folder)
    elif compare(given.library, given.seconds, given.seed):
        sys.exit(1)


if __name__ == "__main__":
    main()
