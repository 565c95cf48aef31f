// SPDX-License-Identifier: Apache-2.0
// SVMRegressor and SVMClassifier of ai.onnx.ml.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise/vector_math.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/machine_learning.hpp"

namespace sluice::nn::operators {
namespace {

// `distance`: of radial, before its exponential.
enum class svm_form : std::uint8_t { linear, polynomial, radial, sigmoid, distance };

// In four parts, so that an addition does not wait for the one before.
template <typename Term>
SLUICE_KERNEL double sum_in_parts(std::size_t count, const Term& term) {
    double parts[4] = {};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t i = 0; i < 4; ++i) parts[i] += term(k + i);
    for (; k < count; ++k) parts[0] += term(k);
    return parts[0] + parts[1] + (parts[2] + parts[3]);
}

// What a row of features and a support vector have in common: [rows, vectors].
template <typename T>
struct svm_kernel {
    const T* x;
    const float* vectors;
    double* to;
    std::size_t columns, count;
    in_word<svm_form> form;
    double gamma, added, degree;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const T* const row = x + i / count * columns;
        const float* const vector = vectors + i % count * columns;
        const bool is_distance = form == svm_form::radial || form == svm_form::distance;
        const double sum = sum_in_parts(columns, [&](std::size_t k) {
            const double a = static_cast<double>(row[k]), b = static_cast<double>(vector[k]);
            return is_distance ? (a - b) * (a - b) : a * b;
        });
        switch (form) {
            case svm_form::linear: to[i] = sum; return;
            case svm_form::polynomial: to[i] = std::pow(gamma * sum + added, degree); return;
            case svm_form::radial: to[i] = std::exp(-gamma * sum); return;
            case svm_form::distance: to[i] = -gamma * sum; return;
            case svm_form::sigmoid: to[i] = std::tanh(gamma * sum + added); return;
        }
    }

    static constexpr std::size_t numbers_of_part = 4'096;
    std::size_t host_unit() const { return 1; }
    void on_host(std::size_t first, std::size_t last) const {
        svm_kernel part = *this;
        const bool is_radial = form == svm_form::radial;
        if (is_radial) part.form = svm_form::distance;
        for (std::size_t i = first; i < last; ++i) part(i);
        if (is_radial) kernels::vector_math_of_this_processor().wide_exponential(to + first, to + first, last - first);
    }
};

any_tensor svm_products(node_call& in, const feature_matrix& of, std::size_t count) {
    const std::vector<float> vectors = in.real_list("support_vectors"), parameters = in.real_list("kernel_params");
    if (vectors.size() / count != of.columns || vectors.size() % count != 0) {
        in.refuse("has " + std::to_string(vectors.size()) + " numbers in " + std::to_string(count) +
                  " support vectors for " + std::to_string(of.columns) + " features");
    }
    if (!parameters.empty() && parameters.size() < 3) in.refuse("has fewer than 3 kernel_params");
    const auto parameter = [&](std::size_t i) { return parameters.empty() ? 0 : static_cast<double>(parameters[i]); };
    const std::string name = in.text("kernel_type", "LINEAR");
    svm_form form{};
    if (name == "LINEAR") {
        form = svm_form::linear;
    } else if (name == "POLY") {
        form = svm_form::polynomial;
    } else if (name == "RBF") {
        form = svm_form::radial;
    } else if (name == "SIGMOID") {
        form = svm_form::sigmoid;
    } else {
        in.refuse("has the kernel_type '" + name + "'");
    }
    const any_tensor table = table_of(in, vectors), to = in.make(io::dtype::f64, {of.rows, count});
    with_features(of, [&]<typename T>() {
        each(in, to.elements(),
             svm_kernel<T>{in.read<T>(of.x), in.read<float>(table), in.write<double>(to), of.columns, count, form,
                           parameter(0), parameter(1), parameter(2)},
             {&of.x, &table}, {&to});
    });
    return to;
}

// One index for each row.
struct svm_side_kernel {
    const double* from;
    double* to;

    SLUICE_KERNEL void operator()(std::size_t row) const { to[row] = from[row] > 0 ? 1 : -1; }
};

struct svm_sum_kernel {
    const double* products;
    const float* coefficients;
    double* to;
    std::size_t count;
    double added;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        const double* const own = products + row * count;
        to[row] =
            sum_in_parts(count, [&](std::size_t k) { return own[k] * static_cast<double>(coefficients[k]); }) + added;
    }
};

// --- classes ---------------------------------------------------------------------------------------------------

// One index for each row: a decision for each pair of classes, and a vote for the class that wins it.
struct svm_pairs_kernel {
    const double* products;
    const float* coefficients;   // [classes - 1, vectors]
    const std::int64_t* begins;  // of each class's vectors; and the end of all
    const float* rho;
    double* decisions;
    double* votes;
    std::size_t classes, vectors, pairs;

    SLUICE_KERNEL double part(const double* row, std::size_t line, std::size_t of_class) const {
        const auto first = static_cast<std::size_t>(begins[of_class]);
        const float* const own = coefficients + line * vectors + first;
        return sum_in_parts(static_cast<std::size_t>(begins[of_class + 1]) - first,
                            [&](std::size_t k) { return static_cast<double>(own[k]) * row[first + k]; });
    }
    SLUICE_KERNEL void operator()(std::size_t r) const {
        const double* const row = products + r * vectors;
        double *const own_votes = votes + r * classes, *const own = decisions + r * pairs;
        for (std::size_t k = 0; k < classes; ++k) own_votes[k] = 0;
        std::size_t pair = 0;
        for (std::size_t i = 0; i < classes; ++i) {
            for (std::size_t k = i + 1; k < classes; ++k, ++pair) {
                const double sum = static_cast<double>(rho[pair]) + part(row, k - 1, i) + part(row, i, k);
                own[pair] = sum;
                own_votes[sum > 0 ? i : k] += 1;
            }
        }
    }
};

// One index for each row: the classes' probabilities from those of the pairs, as libsvm finds them.
struct svm_probability_kernel {
    const double* decisions;
    const float *a, *b;
    double* to;
    double* scratch;  // 2 classes^2 + classes numbers for each row
    std::size_t classes, pairs;

    SLUICE_KERNEL void operator()(std::size_t r) const {
        const std::size_t n = classes;
        double *const p = to + r * n, *const wins = scratch + r * (2 * n * n + n), *const q = wins + n * n,
                      *const qp = q + n * n;
        std::size_t pair = 0;
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t k = i + 1; k < n; ++k, ++pair) {
                const double x =
                    decisions[r * pairs + pair] * static_cast<double>(a[pair]) + static_cast<double>(b[pair]);
                const double win = 1 / (1 + std::exp(x)), least = 1e-7;
                wins[i * n + k] = win > least ? (win < 1 - least ? win : 1 - least) : least;
                wins[k * n + i] = 1 - wins[i * n + k];
            }
        }
        for (std::size_t t = 0; t < n; ++t) {
            p[t] = 1 / static_cast<double>(n);
            q[t * n + t] = 0;
            for (std::size_t k = 0; k < n; ++k) {
                if (k == t) continue;
                q[t * n + t] += wins[k * n + t] * wins[k * n + t];
                q[t * n + k] = -wins[k * n + t] * wins[t * n + k];
            }
        }
        const std::size_t rounds = n > 100 ? n : 100;
        for (std::size_t round = 0; round < rounds; ++round) {
            double all = 0, error = 0;
            for (std::size_t t = 0; t < n; ++t) {
                qp[t] = 0;
                for (std::size_t k = 0; k < n; ++k) qp[t] += q[t * n + k] * p[k];
                all += p[t] * qp[t];
            }
            for (std::size_t t = 0; t < n; ++t) {
                const double own = std::fabs(qp[t] - all);
                error = own > error ? own : error;
            }
            if (error < 0.005 / static_cast<double>(n)) break;
            for (std::size_t t = 0; t < n; ++t) {
                const double change = (all - qp[t]) / q[t * n + t], rest = 1 + change;
                p[t] += change;
                all = (all + change * (change * q[t * n + t] + 2 * qp[t])) / rest / rest;
                for (std::size_t k = 0; k < n; ++k) {
                    qp[k] = (qp[k] + change * q[t * n + k]) / rest;
                    p[k] /= rest;
                }
            }
        }
    }
};

enum class svm_rule : std::uint8_t { highest, second_if_half, is_positive };

// One index for each row.
struct svm_label_kernel {
    const double* weights;
    const std::int64_t* labels;
    std::int64_t* to;
    std::size_t count;
    in_word<svm_rule> rule;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        const double* const own = weights + row * count;
        std::size_t best = 0;
        for (std::size_t k = 1; k < count; ++k)
            if (static_cast<float>(own[k]) > static_cast<float>(own[best])) best = k;
        if (rule == svm_rule::is_positive) {
            to[row] = own[best] > 0 ? 1 : 0;
        } else {
            to[row] = labels[rule == svm_rule::second_if_half && own[best] >= 0.5 ? 1 : best];
        }
    }
};

struct svm_classes {
    any_tensor weights;  // by which the label is chosen
    any_tensor scores;
    bool has_probabilities = false;
};

svm_classes svm_by_pairs(node_call& in, const feature_matrix& of, std::size_t classes, const integers& counts) {
    integers begins{0};
    for (const std::int64_t each_count : counts) {
        if (each_count < 0 || each_count > (std::int64_t{1} << 31)) in.refuse("has no fitting vectors_per_class");
        begins.push_back(begins.back() + each_count);
    }
    const auto vectors = static_cast<std::size_t>(begins.back());
    const std::size_t pairs = classes * (classes - 1) / 2;
    const std::vector<float> coefficients = in.real_list("coefficients"), rho = in.real_list("rho"),
                             a = in.real_list("prob_a"), b = in.real_list("prob_b");
    if (classes < 2 || counts.size() != classes || coefficients.size() != (classes - 1) * vectors ||
        rho.size() < pairs || a.size() != b.size() || (!a.empty() && a.size() < pairs)) {
        in.refuse("has vectors_per_class, coefficients, rho, prob_a or prob_b that do not fit " +
                  std::to_string(classes) + " classes");
    }
    const any_tensor products = svm_products(in, of, vectors);
    const any_tensor table = table_of(in, coefficients), begin_table = table_of(in, begins),
                     rho_table = table_of(in, rho);
    const any_tensor decisions = in.make(io::dtype::f64, {of.rows, pairs}),
                     votes = in.make(io::dtype::f64, {of.rows, classes});
    each(in, of.rows,
         svm_pairs_kernel{in.read<double>(products), in.read<float>(table), in.read<std::int64_t>(begin_table),
                          in.read<float>(rho_table), in.write<double>(decisions), in.write<double>(votes), classes,
                          vectors, pairs},
         {&products, &table, &begin_table, &rho_table}, {&decisions, &votes});
    if (a.empty()) return {votes, decisions};
    const any_tensor a_table = table_of(in, a), b_table = table_of(in, b);
    const any_tensor scratch = in.make(io::dtype::f64, {of.rows, 2 * classes * classes + classes}),
                     scores = in.make(io::dtype::f64, {of.rows, classes});
    each(in, of.rows,
         svm_probability_kernel{in.read<double>(decisions), in.read<float>(a_table), in.read<float>(b_table),
                                in.write<double>(scores), in.write<double>(scratch), classes, pairs},
         {&decisions, &a_table, &b_table}, {&scores, &scratch});
    return {votes, scores, true};
}

}  // namespace

void svm_regressor(node_call& in) {
    const feature_matrix of = features_of(in);
    const std::int64_t count = in.integer("n_supports", 0);
    const std::vector<float> coefficients = in.real_list("coefficients"), rho = in.real_list("rho");
    if (rho.empty()) in.refuse("has no rho");
    if (count < 0) in.refuse("has " + std::to_string(count) + " support vectors");
    any_tensor scores;
    if (count == 0) {
        scores = linear_scores(in, of, coefficients, {rho[0]}, 1);
    } else {
        if (coefficients.size() != static_cast<std::size_t>(count))
            in.refuse("has not one coefficient for each support vector");
        const any_tensor products = svm_products(in, of, coefficients.size()), table = table_of(in, coefficients);
        scores = in.make(io::dtype::f64, {of.rows, 1});
        each(in, of.rows,
             svm_sum_kernel{in.read<double>(products), in.read<float>(table), in.write<double>(scores),
                            coefficients.size(), static_cast<double>(rho[0])},
             {&products, &table}, {&scores});
    }
    const score_transform after = score_transform_of(in);
    if (in.integer("one_class", 0) != 0) {
        if (after != score_transform::identity) in.refuse_unsupported("has one_class and a post_transform");
        const any_tensor sides = in.make(io::dtype::f64, {of.rows, 1});
        each(in, of.rows, svm_side_kernel{in.read<double>(scores), in.write<double>(sides)}, {&scores}, {&sides});
        scores = sides;
    }
    give_scores(in, 0, io::dtype::f32, scores, {.after = after});
}

void svm_classifier(node_call& in) {
    if (in.has("classlabels_strings")) in.refuse_unsupported("has labels that are strings, which are not supported");
    const feature_matrix of = features_of(in);
    const integers labels = in.integer_list("classlabels_ints"), counts = in.integer_list("vectors_per_class");
    const std::vector<float> coefficients = in.real_list("coefficients"), rho = in.real_list("rho");
    if (labels.empty() || rho.empty() || coefficients.empty())
        in.refuse("has no classlabels_ints, coefficients or rho");
    const bool is_linear = std::ranges::all_of(counts, [](std::int64_t each_count) { return each_count == 0; });
    svm_classes made;
    if (is_linear) {
        if (rho.size() == 1 && labels.size() > 2)
            in.refuse_unsupported("is linear, with one rho for more than two classes");
        made.scores = made.weights =
            linear_scores(in, of, coefficients, std::vector(labels.size(), rho[0]), labels.size());
    } else {
        made = svm_by_pairs(in, of, labels.size(), counts);
    }
    const bool is_positive = std::ranges::all_of(coefficients, [](float each_one) { return each_one >= 0; });
    svm_rule rule = svm_rule::highest;
    if (rho.size() == 1 && labels.size() == 1) rule = svm_rule::is_positive;
    if (is_linear && rho.size() == 1 && labels.size() == 2 && is_positive) rule = svm_rule::second_if_half;

    const any_tensor table = table_of(in, labels), &label = in.make_output(0, io::dtype::i64, {of.rows});
    each(in, of.rows,
         svm_label_kernel{in.read<double>(made.weights), in.read<std::int64_t>(table), in.write<std::int64_t>(label),
                          made.weights.shape()[1], rule},
         {&made.weights, &table}, {&label});
    if (!in.wants_output(1)) return;
    const score_transform after = score_transform_of(in);
    score_form form{.after = after};
    if (made.scores.shape()[1] == 1 && after != score_transform::probit) {
        if (rho.size() == 1 && labels.size() == 2) {
            form.other = other_score::negative;
        } else if (after != score_transform::identity) {
            in.refuse_unsupported("has one class and a post_transform");
        }
    }
    give_scores(in, 1, io::dtype::f32, made.scores, form);
}

}  // namespace sluice::nn::operators
