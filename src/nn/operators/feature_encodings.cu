// SPDX-License-Identifier: Apache-2.0
// The operators of ai.onnx.ml that prepare features: scales, norms, categories and labels.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/machine_learning.hpp"
#include "nn/operators/number_checks.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {
namespace {

// --- features --------------------------------------------------------------------------------------------------

std::size_t columns_of(const any_tensor& x) { return x.shape().empty() ? 1 : x.shape().back(); }

void require_one_or_each(const node_call& in, const any_tensor& x, std::size_t count, std::string_view what) {
    if (count != 1 && count != columns_of(x))
        in.refuse("has " + std::to_string(count) + " " + std::string(what) + " for " + to_string(x));
}

enum class vector_norm : std::uint8_t { most, sum, euclidean };

// One index for each row.
template <typename T>
struct norm_kernel {
    const T* from;
    float* to;
    std::size_t columns;
    in_word<vector_norm> norm;

    SLUICE_KERNEL void operator()(std::size_t row) const {
        double size = 0;
        for (std::size_t k = 0; k < columns; ++k) {
            const double x = static_cast<double>(from[row * columns + k]), positive = x < 0 ? -x : x;
            size = norm == vector_norm::most  ? (positive > size ? positive : size)
                   : norm == vector_norm::sum ? size + positive
                                              : size + x * x;
        }
        if (norm == vector_norm::euclidean) size = std::sqrt(size);
        for (std::size_t k = 0; k < columns; ++k) {
            const double x = static_cast<double>(from[row * columns + k]);
            to[row * columns + k] = static_cast<float>(size == 0 ? x : x / size);
        }
    }
};

struct columns_kernel {
    const float* from;
    float* to;
    std::size_t from_columns, columns, to_begin, to_columns;  // columns: of the part

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / columns, k = i % columns;
        to[row * to_columns + to_begin + k] = k < from_columns ? from[row * from_columns + k] : 0;
    }
};

template <typename Word>
struct extracting_kernel {
    const Word* from;
    const std::int64_t* at;
    Word* to;
    std::size_t columns, count;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::int64_t k = at[i % count];
        to[i] = k >= 0 && static_cast<std::size_t>(k) < columns
                    ? from[i / count * columns + static_cast<std::size_t>(k)]
                    : Word(0);
    }
};

// --- encodings -------------------------------------------------------------------------------------------------

template <typename T>
struct one_hot_kernel {
    const T* from;
    const std::int64_t* known;
    float* to;
    std::size_t count;
    in_word<bool> is_complete;  // others than the known are refused; NaN where a refusal is not possible

    // Fractions are cut off; what is no number stays so.
    SLUICE_KERNEL static double whole_part(double x) { return std::trunc(x); }
    SLUICE_KERNEL static std::int64_t whole_part(std::int64_t x) { return x; }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        bool is_known = !is_complete;
        for (std::size_t k = 0; k < count; ++k) {
            const bool is_this = whole_part(from[i]) == static_cast<T>(known[k]);
            to[i * count + k] = is_this ? 1 : 0;
            is_known = is_known || is_this;
        }
        if (is_known) return;
        for (std::size_t k = 0; k < count; ++k) to[i * count + k] = NAN;
    }
};

// Finds each number in a sorted table.
template <typename Key, typename Word>
struct label_kernel {
    const Key* from;
    const Key* keys;
    const Word* values;  // of the keys; then those of NaN and of all other numbers
    Word* to;
    std::size_t count;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const Key x = from[i];
        if (sluice::detail::is_nan(x)) {
            to[i] = values[count];
            return;
        }
        std::size_t begin = 0, end = count;
        while (begin < end) {
            const std::size_t middle = begin + (end - begin) / 2;
            if (keys[middle] < x) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        to[i] = values[begin < count && keys[begin] == x ? begin : count + 1];
    }
};

any_tensor list_or_tensor(const node_call& in, const std::string& kind) {
    std::vector<any_tensor> found;
    if (const integers list = in.integer_list(kind + "_int64s"); !list.empty())
        found.emplace_back(list, lengths{list.size()});
    if (const std::vector<float> list = in.real_list(kind + "_floats"); !list.empty())
        found.emplace_back(list, lengths{list.size()});
    if (const constant* const tensor = in.tensor_attribute(kind + "_tensor"); tensor != nullptr)
        found.emplace_back(*tensor);
    if (found.size() != 1) in.refuse("needs one list of " + kind);
    return found.front();
}

template <typename Key>
std::vector<Key> label_keys(const any_tensor& from) {
    std::vector<Key> made(from.elements());
    with_type(from.type(), [&]<typename T>() {
        for (std::size_t i = 0; i < made.size(); ++i) {
            T value;
            std::memcpy(&value, from.bytes().data() + i * sizeof(T), sizeof(T));
            made[i] = static_cast<Key>(static_cast<computed<T>>(value));
        }
    });
    return made;
}

// The bytes of the number that stands for what is not among the keys.
std::string label_default(const node_call& in, io::dtype type) {
    std::string bytes(io::size_of(type), '\0');
    if (const constant* const tensor = in.tensor_attribute("default_tensor"); tensor != nullptr) {
        if (tensor->type != type || tensor->elements() != 1)
            in.refuse("has a default_tensor that is not one number of the values' type");
        return *tensor->bytes;
    }
    with_type(type, [&]<typename T>() {
        T value{};
        if constexpr (std::is_integral_v<T>) {
            value = static_cast<T>(in.integer("default_int64", -1));
        } else {
            value = static_cast<T>(in.real("default_float", -0.0f));
        }
        std::memcpy(bytes.data(), &value, sizeof(T));
    });
    return bytes;
}

template <typename Key>
void encode_labels(node_call& in, const any_tensor& keys_given, const any_tensor& values_given) {
    const any_tensor x = converted_to(in, in.input(0), io::dtype_of<Key>);
    const std::vector<Key> given = label_keys<Key>(keys_given);
    const std::size_t size = io::size_of(values_given.type());
    const auto value_of = [&](std::size_t i) {
        return std::string_view(reinterpret_cast<const char*>(values_given.bytes().data()) + i * size, size);
    };
    std::vector<std::size_t> order;
    std::string other = label_default(in, values_given.type()), nan = other;
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (given[i] == given[i]) {
            order.push_back(i);
        } else {
            nan = value_of(i);
        }
    }
    std::ranges::sort(order, {}, [&](std::size_t i) { return given[i]; });
    std::vector<Key> keys;
    std::string values;
    for (const std::size_t i : order) {
        if (!keys.empty() && keys.back() == given[i]) in.refuse("has a key twice");
        keys.push_back(given[i]);
        values += value_of(i);
    }
    values += nan + other;
    const any_tensor key_table = table_of(in, keys),
                     value_table = table_of_bytes(in, values_given.type(), keys.size() + 2, values.data());
    const any_tensor& y = in.make_output(0, values_given.type(), in.input(0).shape());
    with_word(values_given.type(), [&]<typename Word>() {
        each(in, y.elements(),
             label_kernel<Key, Word>{in.read<Key>(x), in.read<Key>(key_table), in.read<Word>(value_table),
                                     in.write<Word>(y), keys.size()},
             {&x, &key_table, &value_table}, {&y});
    });
}

}  // namespace

void scaler(node_call& in) {
    const any_tensor& x = in.input(0);
    require_ml_number(in, x);
    const std::vector<float> offset = in.real_list("offset"), scale = in.real_list("scale");
    expression e(in);
    expression::value made = e.input(x), by{}, times{};
    if (!offset.empty()) {
        require_one_or_each(in, x, offset.size(), "offsets");
        by = e.input(table_of(in, offset));
    }
    if (!scale.empty()) {
        require_one_or_each(in, x, scale.size(), "scales");
        times = e.input(table_of(in, scale));
    }
    if (!offset.empty()) made = e.apply(opcode::subtract, made, by);
    if (!scale.empty()) made = e.apply(opcode::multiply, made, times);
    e.give(in.make_output(0, io::dtype::f32, x.shape()), made);
    e.run();
}

void normalizer(node_call& in) {
    const std::string name = in.text("norm", "MAX");
    if (name != "MAX" && name != "L1" && name != "L2")
        in.refuse("has the norm '" + name + "'; 'MAX', 'L1' and 'L2' are possible");
    const feature_matrix of = features_of(in);
    const any_tensor& y = in.make_output(0, io::dtype::f32, in.input(0).shape());
    const auto norm = name == "MAX" ? vector_norm::most : name == "L1" ? vector_norm::sum : vector_norm::euclidean;
    with_features(of, [&]<typename T>() {
        each(in, of.rows, norm_kernel<T>{in.read<T>(of.x), in.write<float>(y), of.columns, norm}, {&of.x}, {&y});
    });
}

void binarizer(node_call& in) {
    const any_tensor& x = in.input(0);
    require_ml_number(in, x);
    double threshold = in.real("threshold", 0);
    if (!is_float(x.type())) {
        threshold = std::floor(threshold);
        if (!(std::abs(threshold) < 9e18)) in.refuse("has a threshold that no integer has");
    }
    expression e(in);
    const expression::value read = e.input(x);
    e.give(0, x.type(), e.apply(opcode::less, e.constant(threshold), read));
    e.run();
}

void imputer(node_call& in) {
    const any_tensor& x = in.input(0);
    require_ml_number(in, x);
    expression e(in);
    const expression::value read = e.input(x);
    const auto give = [&](expression::value is_missing, expression::value instead) {
        e.give(in.make_output(0, x.type(), x.shape()), e.apply(opcode::choose, is_missing, instead, read));
        e.run();
    };
    if (is_float(x.type())) {
        const std::vector<float> values = in.real_list("imputed_value_floats");
        require_one_or_each(in, x, values.size(), "imputed values");
        const float missing = in.real("replaced_value_float", 0);
        const expression::value instead = e.input(table_of(in, values));
        give(std::isnan(missing) ? e.apply(opcode::is_nan, read) : e.apply(opcode::equal, read, e.constant(missing)),
             instead);
    } else {
        const integers values = in.integer_list("imputed_value_int64s");
        require_one_or_each(in, x, values.size(), "imputed values");
        const expression::value instead = e.input(table_of(in, values)),
                                missing = e.input(table_of(in, integers{in.integer("replaced_value_int64", 0)}));
        give(e.apply(opcode::equal, read, missing), instead);
    }
}

void feature_vectorizer(node_call& in) {
    integers wanted = in.integer_list("inputdimensions");
    std::vector<any_tensor> parts;
    std::size_t rows = 0, columns = 0;
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        const any_tensor& x = in.input(i);
        require_ml_number(in, x);
        if (x.shape().empty() || x.shape().size() > 2)
            in.refuse_shapes("takes rows of features, and is given " + to_string(x));
        // A list is one row.
        parts.push_back(converted_to(in, x, io::dtype::f32)
                            .with_shape(x.shape().size() < 2 ? lengths{1, x.shape()[0]} : x.shape()));
        if (i != 0 && parts.back().shape()[0] != rows) in.refuse_shapes("takes inputs with different numbers of rows");
        rows = parts.back().shape()[0];
        if (!in.has("inputdimensions")) wanted.push_back(static_cast<std::int64_t>(parts.back().shape()[1]));
        if (wanted.size() <= i || wanted[i] < 0 || wanted[i] > (std::int64_t{1} << 40))
            in.refuse("has no fitting inputdimensions");
        columns += static_cast<std::size_t>(wanted[i]);
    }
    if (wanted.size() != in.input_count()) in.refuse("has inputdimensions for another number of inputs");
    const any_tensor& y = in.make_output(0, io::dtype::f32, {rows, columns});
    std::size_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto count = static_cast<std::size_t>(wanted[i]);
        each(in, rows * count,
             columns_kernel{in.read<float>(parts[i]), in.write<float>(y), parts[i].shape()[1], count, begin, columns},
             {&parts[i]}, {&y});
        begin += count;
    }
}

void array_feature_extractor(node_call& in) {
    const any_tensor &x = in.input(0), &which = in.input(1);
    if (which.type() != io::dtype::i64) in.refuse_type(which);
    if (x.shape().empty()) in.refuse_shapes("takes features, and is given one number");
    const std::size_t columns = x.shape().back();
    lengths shape = x.shape();
    shape.back() = which.elements();
    if (shape.size() == 1) shape.insert(shape.begin(), 1);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    require_numbers(in, 1, {0, static_cast<std::int64_t>(columns) - 1}, y);
    with_word(x.type(), [&]<typename Word>() {
        each(in, y.elements(),
             extracting_kernel<Word>{in.read<Word>(x), in.read<std::int64_t>(which), in.write<Word>(y), columns,
                                     which.elements()},
             {&x, &which}, {&y});
    });
}

void one_hot_encoder(node_call& in) {
    refuse_strings(in, {"cats_strings"});
    const any_tensor& x = in.input(0);
    require_ml_number(in, x);
    integers known = in.integer_list("cats_int64s");
    if (known.empty()) in.refuse("has no categories");
    const any_tensor table = table_of(in, known);
    std::ranges::sort(known);
    if (std::ranges::adjacent_find(known) != known.end()) in.refuse("has a category twice");
    lengths shape = x.shape();
    shape.push_back(known.size());
    const any_tensor& y = in.make_output(0, io::dtype::f32, shape);
    if (in.integer("zeros", 1) == 0) {
        number_rule rule(any_number_at_all, "category");
        rule.known = &table;
        require_numbers(in, 0, rule, y);
    }
    const auto encode = [&]<typename T>() {
        const any_tensor from = converted_to(in, x, io::dtype_of<T>);
        each(in, x.elements(),
             one_hot_kernel<T>{in.read<T>(from), in.read<std::int64_t>(table), in.write<float>(y), known.size(),
                               in.integer("zeros", 1) == 0},
             {&from, &table}, {&y});
    };
    if (is_float(x.type())) return encode.operator()<double>();
    encode.operator()<std::int64_t>();
}

void label_encoder(node_call& in) {
    refuse_strings(in, {"classes_strings", "keys_strings", "values_strings"});
    const any_tensor keys = list_or_tensor(in, "keys"), values = list_or_tensor(in, "values");
    if (keys.elements() != values.elements())
        in.refuse("has " + std::to_string(keys.elements()) + " keys and " + std::to_string(values.elements()) +
                  " values");
    if (keys.type() != in.input(0).type())
        in.refuse("has keys of " + std::string(io::to_string(keys.type())) + " for " + to_string(in.input(0)));
    if (is_float(keys.type())) return encode_labels<double>(in, keys, values);
    encode_labels<std::int64_t>(in, keys, values);
}

}  // namespace sluice::nn::operators
