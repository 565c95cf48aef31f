#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small models of scikit-learn on the data that it carries, and exports each by skl2onnx, with its own outputs
for rows like those that it was not trained on.

    python3 tools/export_sklearn.py FOLDER [NAME...]

Each goes to FOLDER/sklearn-NAME. Needs scikit-learn, skl2onnx and onnx.
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (cluster, cross_decomposition, decomposition, discriminant_analysis, ensemble,
                     feature_selection, gaussian_process, isotonic, linear_model, mixture,
                     multiclass, naive_bayes, neighbors, neural_network, preprocessing, random_projection, svm, tree)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline

from exported_network import export_all, store

OPSETS = {"": 21, "ai.onnx.ml": 3}
SEED = 7


def split(loaded):
    rows = loaded.data.astype(np.float32)
    return train_test_split(rows, loaded.target, test_size=0.25, random_state=SEED)


DATA = {"iris": split(load_iris()), "wine": split(load_wine()), "cancer": split(load_breast_cancer()),
        "digits": split(load_digits()), "diabetes": split(load_diabetes())}


def scaled(model):
    return make_pipeline(preprocessing.StandardScaler(), model)


def with_noise(rows):
    """Not the data's own numbers: trees have thresholds at numbers that many rows have, and with 32 bits such a number
    may come to the other side."""
    noise = np.random.default_rng(SEED).standard_normal(rows.shape)
    return (rows + 0.03 * rows.std(0) * noise).astype(np.float32)


def with_holes(rows):
    """Some numbers are missing."""
    holes = np.random.default_rng(SEED).random(rows.shape) < 0.1
    return np.where(holes, np.float32("nan"), rows)


def several(target):
    return np.stack([target, np.sin(target / 50), -target / 3], 1)


# Name: data set, model.
MODELS = {
    # Linear models
    "linear_regression": ("diabetes", linear_model.LinearRegression()),
    "ridge": ("diabetes", scaled(linear_model.Ridge(0.5))),
    "lasso": ("diabetes", linear_model.Lasso(0.05)),
    "elastic_net": ("diabetes", scaled(linear_model.ElasticNet(0.1))),
    "bayesian_ridge": ("diabetes", linear_model.BayesianRidge()),
    "huber_regressor": ("diabetes", scaled(linear_model.HuberRegressor())),
    "poisson_regressor": ("diabetes", scaled(linear_model.PoissonRegressor())),
    "sgd_regressor": ("diabetes", scaled(linear_model.SGDRegressor(random_state=SEED))),
    "logistic_regression": ("iris", linear_model.LogisticRegression(max_iter=1000)),
    "logistic_regression_two_classes": ("cancer", scaled(linear_model.LogisticRegression())),
    "sgd_classifier": ("digits", scaled(linear_model.SGDClassifier(loss="log_loss", alpha=0.05, random_state=SEED))),
    "sgd_classifier_hinge": ("wine", scaled(linear_model.SGDClassifier(random_state=SEED))),
    "perceptron": ("iris", scaled(linear_model.Perceptron(random_state=SEED))),
    "ridge_classifier": ("wine", scaled(linear_model.RidgeClassifier())),
    "linear_discriminant": ("wine", discriminant_analysis.LinearDiscriminantAnalysis()),
    "quadratic_discriminant": ("iris", discriminant_analysis.QuadraticDiscriminantAnalysis()),
    "partial_least_squares": ("diabetes", cross_decomposition.PLSRegression(3)),
    # Support vectors
    "svc_rbf": ("iris", svm.SVC(probability=True, random_state=SEED)),
    "svc_poly": ("wine", scaled(svm.SVC(kernel="poly", degree=2))),
    "svc_two_classes": ("cancer", scaled(svm.SVC(kernel="sigmoid", probability=True, random_state=SEED))),
    "svc_linear": ("digits", scaled(svm.SVC(kernel="linear"))),
    "nu_svc": ("iris", svm.NuSVC(nu=0.3)),
    "linear_svc": ("iris", svm.LinearSVC(random_state=SEED)),
    "svr": ("diabetes", scaled(svm.SVR(C=50.0))),
    "nu_svr": ("diabetes", scaled(svm.NuSVR(C=10.0, kernel="poly"))),
    "one_class_svm": ("wine", scaled(svm.OneClassSVM(nu=0.2))),
    # Neighbours, Bayes, processes
    "knn_classifier": ("iris", neighbors.KNeighborsClassifier(5)),
    "knn_regressor": ("diabetes", neighbors.KNeighborsRegressor(4)),
    "knn_regressor_by_distance": ("diabetes", neighbors.KNeighborsRegressor(4, weights="distance")),
    "radius_neighbors": ("iris", neighbors.RadiusNeighborsClassifier(1.5)),
    "gaussian_bayes": ("wine", naive_bayes.GaussianNB()),
    "multinomial_bayes": ("digits", naive_bayes.MultinomialNB()),
    "bernoulli_bayes": ("digits", naive_bayes.BernoulliNB(binarize=7.5)),
    "complement_bayes": ("digits", naive_bayes.ComplementNB()),
    "gaussian_process_regressor": ("diabetes", scaled(gaussian_process.GaussianProcessRegressor(
        gaussian_process.kernels.RBF(4.0) + gaussian_process.kernels.WhiteKernel(1.0), normalize_y=True))),
    "gaussian_process_classifier": ("cancer", scaled(gaussian_process.GaussianProcessClassifier())),
    # Trees
    "decision_tree": ("iris", tree.DecisionTreeClassifier(random_state=SEED)),
    "decision_tree_regressor": ("diabetes", tree.DecisionTreeRegressor(max_depth=5, random_state=SEED)),
    "random_forest": ("digits", ensemble.RandomForestClassifier(20, random_state=SEED)),
    "random_forest_regressor": ("diabetes", ensemble.RandomForestRegressor(20, random_state=SEED)),
    "extra_trees": ("cancer", ensemble.ExtraTreesClassifier(15, random_state=SEED)),
    "gradient_boosting": ("wine", ensemble.GradientBoostingClassifier(n_estimators=20, random_state=SEED)),
    "gradient_boosting_two_classes": ("cancer", ensemble.GradientBoostingClassifier(n_estimators=20,
                                                                                    random_state=SEED)),
    "gradient_boosting_regressor": ("diabetes", ensemble.GradientBoostingRegressor(n_estimators=40,
                                                                                  random_state=SEED)),
    "hist_gradient_boosting": ("digits", ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=SEED)),
    "hist_gradient_boosting_holes": ("cancer", ensemble.HistGradientBoostingClassifier(max_iter=15,
                                                                                      random_state=SEED)),
    "hist_gradient_boosting_regressor": ("diabetes", ensemble.HistGradientBoostingRegressor(max_iter=20)),
    "ada_boost": ("wine", ensemble.AdaBoostClassifier(n_estimators=10, random_state=SEED)),
    "bagging": ("wine", ensemble.BaggingClassifier(random_state=SEED)),
    "isolation_forest": ("cancer", ensemble.IsolationForest(n_estimators=30, random_state=SEED)),
    # Networks and combinations
    "mlp_classifier": ("digits", scaled(neural_network.MLPClassifier(hidden_layer_sizes=(40, 20), max_iter=60,
                                                                   random_state=SEED))),
    "mlp_regressor": ("diabetes", scaled(neural_network.MLPRegressor(hidden_layer_sizes=(30,), activation="tanh",
                                                                  max_iter=300, random_state=SEED))),
    "voting": ("wine", ensemble.VotingClassifier([
        ("a", scaled(linear_model.LogisticRegression())), ("b", tree.DecisionTreeClassifier(random_state=SEED)),
        ("c", naive_bayes.GaussianNB())], voting="soft", flatten_transform=False)),
    "stacking": ("diabetes", ensemble.StackingRegressor([
        ("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, random_state=SEED))])),
    "one_vs_rest": ("iris", multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
    "calibrated": ("cancer", CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=3)),
    "several_outputs": ("diabetes", MultiOutputRegressor(linear_model.Ridge())),
    # Transformers of features
    "scalers": ("wine", make_pipeline(preprocessing.RobustScaler(), preprocessing.MinMaxScaler(),
                                      preprocessing.MaxAbsScaler(), preprocessing.Normalizer("l1"))),
    "polynomial_features": ("iris", make_pipeline(preprocessing.PolynomialFeatures(2), scaled(
        linear_model.LogisticRegression(max_iter=500)))),
    "power_transformer": ("wine", preprocessing.PowerTransformer()),
    "k_bins": ("iris", preprocessing.KBinsDiscretizer(4, encode="onehot-dense", quantile_method="linear")),
    "binarizer": ("digits", make_pipeline(preprocessing.Binarizer(threshold=8), decomposition.TruncatedSVD(8))),
    "imputer": ("wine", make_pipeline(SimpleImputer(strategy="median"), scaled(linear_model.LogisticRegression()))),
    "knn_imputer": ("iris", KNNImputer(n_neighbors=3)),
    "column_transformer": ("wine", make_pipeline(ColumnTransformer([
        ("scaled", preprocessing.StandardScaler(), [0, 1, 2, 3]), ("normal", preprocessing.Normalizer(), [4, 5, 6]),
        ("cubes", preprocessing.PolynomialFeatures(3, interaction_only=True), [7, 8, 9])], remainder="passthrough"),
        scaled(linear_model.LogisticRegression()))),
    "feature_union": ("digits", make_pipeline(FeatureUnion([
        ("components", decomposition.PCA(10)), ("best", feature_selection.SelectKBest(k=12))]),
        scaled(linear_model.LogisticRegression(max_iter=500)))),
    "pca": ("digits", decomposition.PCA(12, whiten=True)),
    "kernel_pca": ("iris", decomposition.KernelPCA(3, kernel="rbf", gamma=0.1)),
    "random_projection": ("digits", random_projection.GaussianRandomProjection(10, random_state=SEED)),
    "variance_threshold": ("digits", make_pipeline(feature_selection.VarianceThreshold(1.0),
                                                   linear_model.LogisticRegression(max_iter=2000))),
    "one_hot": ("bins", make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"),
                                      linear_model.LogisticRegression(max_iter=500))),
    # As skl2onnx makes them by itself: the probabilities are maps.
    "maps_of_probabilities": ("wine", scaled(linear_model.LogisticRegression())),
    "text_labels": ("iris", linear_model.LogisticRegression(max_iter=500)),
    "text_columns": ("text", make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"),
                                           linear_model.LogisticRegression(max_iter=500))),
    "ordinal": ("bins", make_pipeline(preprocessing.OrdinalEncoder(), tree.DecisionTreeClassifier(random_state=SEED))),
    # Clusters and densities
    "k_means": ("iris", cluster.KMeans(4, random_state=SEED, n_init=3)),
    "mini_batch_k_means": ("digits", cluster.MiniBatchKMeans(10, random_state=SEED, n_init=3)),
    "gaussian_mixture": ("iris", mixture.GaussianMixture(3, random_state=SEED)),
    "bayesian_mixture": ("iris", mixture.BayesianGaussianMixture(n_components=3, covariance_type="diag",
                                                                 random_state=SEED)),
}

LABELS_IN_A_ROW = {"quadratic_discriminant"}  # so skl2onnx writes it
TAKES_HOLES = {"imputer", "knn_imputer", "hist_gradient_boosting_holes"}
SEVERAL_TARGETS = {"several_outputs", "partial_least_squares"}
# scikit-learn computes with 64 bits, the exported model with 32.
TOLERANCE = 1e-4
TOLERANCES = {"multinomial_bayes": 1e-3, "complement_bayes": 1e-3}  # small differences of large sums


def data_of(name):
    source = MODELS[name][0]
    if source == "bins":  # whole numbers, as categories
        train, test, target, _ = DATA["iris"]
        return np.rint(train).astype(np.int64), np.rint(test).astype(np.int64), target
    if source == "text":
        train, test, target, _ = DATA["iris"]
        return np.rint(train).astype("U1"), np.rint(test).astype("U1"), target
    train, test, target, _ = DATA[source]
    test = with_noise(test)
    if name == "text_labels":
        target = np.array(["setosa", "versicolor", "virginica"])[target]
    if name in TAKES_HOLES:
        train, test = with_holes(train), with_holes(test)
    return train, test, several(target) if name in SEVERAL_TARGETS else target


def has(model, method):
    return hasattr(model, method)


def outputs_of(model, rows):
    """In the order in which skl2onnx has them."""
    if model_kind(model) in ("classifier", "outlier_detector", "clusterer", "density_estimator"):
        label = model.predict(rows)
        for scores in ("predict_proba", "decision_function", "transform"):
            if has(model, scores):
                return [label, getattr(model, scores)(rows)]
        return [label]
    if has(model, "predict"):
        return [model.predict(rows)]
    return [model.transform(rows)]


def model_kind(model):
    from sklearn.utils import get_tags
    return get_tags(model).estimator_type


def of_model(name, array, info):
    """The framework's output with the type and the number of dimensions that the exported model gives."""
    if info.type.HasField("sequence_type"):
        return np.asarray(array, np.float32)
    if info.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        return np.asarray(array)
    kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    rank = len(info.type.tensor_type.shape.dim)
    array = np.asarray(array).astype(kind)
    if array.ndim == 1 and rank == 2:
        return array.reshape(1, -1) if name in LABELS_IN_A_ROW else array.reshape(-1, 1)
    return array


def options_of(name, model):
    if model_kind(model) != "classifier" or name == "maps_of_probabilities":
        return None
    options = {} if isinstance(model, svm.LinearSVC) else {"zipmap": False}
    if not has(model, "predict_proba") and has(model, "decision_function"):
        options["raw_scores"] = True
    return {id(model): options}


def export(folder, exporter, name):
    model = MODELS[name][1]
    train, test, target = data_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train, target)
        kind = {"i": Int64TensorType, "f": FloatTensorType, "U": StringTensorType}[train.dtype.kind]
        exported = skl2onnx.convert_sklearn(model, initial_types=[("rows", kind([None, train.shape[1]]))],
                                            options=options_of(name, model), target_opset=OPSETS)
    expected = [of_model(name, *each) for each in zip(outputs_of(model, test), exported.graph.output)]
    del exported.graph.output[len(expected):]  # such as KMeans' distances under another name
    store(folder, "sklearn", exporter, name, exported, {"rows": test}, expected,
          TOLERANCES.get(name, TOLERANCE))


def main():
    folder = pathlib.Path(sys.argv[1])
    exporter = f"skl2onnx {skl2onnx.__version__}"
    export_all(folder, "sklearn", exporter, MODELS, lambda name: export(folder, exporter, name))


main()
