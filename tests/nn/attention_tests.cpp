// SPDX-License-Identifier: Apache-2.0
// Attention as exporters write it, in forms, sizes, masks and special values at random, on the default device (a GPU
// where there is one): what it gives is what its nodes give in f64 on a CPU, one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/operators/residual_norm.hpp"
#include "nn/support/single_nodes.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::attention_tests {
namespace {

using namespace test_support;

using lengths = std::vector<std::size_t>;
using places = std::vector<std::int64_t>;

std::size_t product(const lengths& shape) {
    std::size_t made = 1;
    for (const std::size_t each : shape) made *= each;
    return made;
}

// Numbers that are exact in the type, as elements of the type or as f64.
template <typename T>
any_tensor elements(const std::vector<float>& values, lengths shape, bool is_exact) {
    std::vector<T> rounded;
    rounded.reserve(values.size());
    for (const float each : values) rounded.push_back(T(each));
    if (!is_exact) return any_tensor(rounded, std::move(shape));
    std::vector<double> wide;
    wide.reserve(values.size());
    for (const T& each : rounded) wide.push_back(static_cast<double>(static_cast<float>(each)));
    return any_tensor(wide, std::move(shape));
}

enum class heads_from { nothing, reshapes, one_product, split, sequence_first, slices };
enum class scaled { nothing, queries, both, scores_by_mul, scores_by_div };
enum class masked { nothing, keys, each_place, heads, kept_where, dropped_where, both, infinities };

struct attention_form {
    heads_from from = heads_from::reshapes;
    scaled scale = scaled::scores_by_mul;
    masked mask = masked::nothing;
    bool joins_heads = true;
    bool gives_zeros = false;      // for queries whose keys are all masked
    bool is_shaped_first = false;  // what is turned after the products
    std::size_t batches = 2, heads = 3, queries = 9, keys = 11, size = 8, value_size = 8;
};

// The model's nodes, and what it is given. The same for f64.
template <typename T>
class written {
public:
    written(const attention_form& form, bool is_special, bool is_exact, unsigned seed)
        : form_(form), is_special_(is_special), is_exact_(is_exact), numbers_(seed) {
        made.path = "attention.onnx";
        made.opsets = {{"", 17}};
        type_ = is_exact ? io::dtype::f64 : io::dtype_of<T>;
        write();
    }

    model made;
    std::vector<any_tensor> inputs;

private:
    std::vector<float> normal(std::size_t count, bool is_special) {
        std::normal_distribution<float> one;
        std::vector<float> values(count);
        for (float& each : values) each = one(numbers_);
        if (is_special) {
            const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
            for (const float each : {inf, -inf, nan}) values[numbers_() % count] = each;
        }
        return values;
    }
    std::string input(const std::string& name, const lengths& shape, bool is_special) {
        inputs.push_back(elements<T>(normal(product(shape), is_special), shape, is_exact_));
        made.body.inputs.push_back({name, type_, {}});
        return name;
    }
    std::string constant_of(const std::string& name, const std::vector<float>& values, const lengths& shape) {
        const any_tensor all = elements<T>(values, shape, is_exact_);
        const auto bytes = all.bytes();
        made.body.constants[name] = {
            type_, shape,
            std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
        return name;
    }
    std::string list_of(const places& values) {
        const std::string name = "list" + std::to_string(made.body.constants.size());
        made.body.constants[name] = tensor_of(values, {values.size()});
        return name;
    }
    std::string one_place(std::int64_t value) {
        const std::string name = "place" + std::to_string(made.body.constants.size());
        made.body.constants[name] = tensor_of<std::int64_t>({value}, {});
        return name;
    }
    std::string apply(const std::string& op, std::vector<std::string> from, attributes with = {}) {
        const std::string to = "v" + std::to_string(made.body.nodes.size());
        made.body.nodes.push_back(make_node(op, std::move(from), {to}));
        made.body.nodes.back().attributes = std::move(with);
        return to;
    }
    std::string turned(const std::string& from, const places& order) {
        return apply("Transpose", {from}, {{"perm", wholes(order)}});
    }
    std::string shaped(const std::string& from, const lengths& shape) {
        return apply("Reshape", {from, list_of(places(shape.begin(), shape.end()))});
    }

    // q and v as [batch, head, position, size], k with the last two exchanged.
    void write_heads(std::string& q, std::string& k, std::string& v) {
        const std::size_t b = form_.batches, h = form_.heads, i = form_.queries, j = form_.keys, d = form_.size,
                          e = form_.value_size, wide = h * d;
        const auto whole_heads = [&](const std::string& one, std::size_t positions, std::size_t size, bool is_key) {
            return turned(shaped(one, {b, positions, h, size}), is_key ? places{0, 2, 3, 1} : places{0, 2, 1, 3});
        };
        switch (form_.from) {
            case heads_from::nothing:
                q = input("q", {b, h, i, d}, is_special_);
                k = input("k", {b, h, d, j}, false);
                v = input("v", {b, h, j, e}, is_special_);
                return;
            case heads_from::reshapes:
                q = whole_heads(input("q", {b, i, wide}, is_special_), i, d, false);
                k = whole_heads(input("k", {b, j, wide}, false), j, d, true);
                v = whole_heads(input("v", {b, j, h * e}, is_special_), j, e, false);
                return;
            case heads_from::one_product: {
                const std::string x = input("x", {b, i, 3 * wide}, is_special_);
                const std::string all = turned(shaped(x, {b, i, 3, h, d}), {2, 0, 3, 1, 4});
                q = apply("Gather", {all, one_place(0)}, {{"axis", whole(0)}});
                k = turned(apply("Gather", {all, one_place(1)}, {{"axis", whole(0)}}), {0, 1, 3, 2});
                v = apply("Gather", {all, one_place(-1)}, {{"axis", whole(0)}});
                return;
            }
            case heads_from::slices: {  // as PyTorch's exporter divides what one product gives
                const std::string x = input("x", {b, i, 3 * wide}, is_special_);
                const std::string all = turned(shaped(x, {b, i, 3, h, d}), {2, 0, 3, 1, 4});
                const auto one = [&](std::int64_t first, std::int64_t end) {
                    std::vector<std::string> from{all, list_of({first}), list_of({end}), list_of({0})};
                    if (first == 1) from.push_back(list_of({1}));
                    return apply("Squeeze", {apply("Slice", from), list_of({0})});
                };
                q = one(0, 1);
                k = turned(one(1, 2), {0, 1, 3, 2});
                v = one(-1, 1000);
                return;
            }
            case heads_from::split: {
                const std::string x = input("x", {b, i, 3 * wide}, is_special_);
                const auto part = static_cast<std::int64_t>(wide);
                made.body.nodes.push_back(
                    make_node("Split", {x, list_of({part, part, part})}, {"of_q", "of_k", "of_v"}));
                made.body.nodes.back().attributes = {{"axis", whole(-1)}};
                q = whole_heads("of_q", i, d, false);
                k = whole_heads("of_k", i, d, true);
                v = whole_heads("of_v", i, d, false);
                return;
            }
            case heads_from::sequence_first: {  // as PyTorch's MultiheadAttention
                const std::string x = shaped(input("x", {i, b, 3 * wide}, is_special_), {i, b, 3, wide});
                const std::string wider = apply("Unsqueeze", {x, list_of({0})});
                const std::string all = apply("Squeeze", {turned(wider, {3, 1, 2, 0, 4}), list_of({3})});
                std::string* const to[] = {&q, &k, &v};
                for (std::int64_t which = 0; which < 3; ++which) {
                    const std::string one = apply("Gather", {all, one_place(which)}, {{"axis", whole(0)}});
                    *to[which] = shaped(turned(shaped(one, {i, b * h, d}), {1, 0, 2}), {b, h, i, d});
                }
                k = turned(k, {0, 1, 3, 2});
                return;
            }
        }
    }

    std::string number_of(float value) {
        return constant_of("number" + std::to_string(made.body.constants.size()), {value}, {});
    }
    std::string scale_scores(const std::string& scores) {
        const float size = std::sqrt(static_cast<float>(form_.size));
        if (form_.scale == scaled::scores_by_mul) return apply("Mul", {number_of(1 / size), scores});
        if (form_.scale == scaled::scores_by_div) return apply("Div", {scores, number_of(size)});
        return scores;
    }
    std::string booleans_of(const lengths& shape) {
        std::string bytes(product(shape), '\0');
        for (char& each : bytes) each = numbers_() % 4 != 0 ? '\1' : '\0';
        made.body.constants["kept"] = {io::dtype::boolean, shape, std::make_shared<const std::string>(bytes)};
        return "kept";
    }
    std::string mask_scores(const std::string& scores) {
        const std::size_t b = form_.batches, h = form_.heads, i = form_.queries, j = form_.keys;
        const float inf = std::numeric_limits<float>::infinity();
        const auto add = [&](const std::string& name, const std::string& to, const lengths& shape, float nothing) {
            std::vector<float> values = normal(product(shape), false);
            for (float& each : values)
                if (numbers_() % 4 == 0) each = nothing;
            return apply("Add", {to, constant_of(name, values, shape)});
        };
        switch (form_.mask) {
            case masked::nothing: return scores;
            case masked::keys: return add("mask", scores, {b, 1, 1, j}, -1000);
            case masked::each_place: return add("mask", scores, {i, j}, -1000);
            case masked::heads: return add("mask", scores, {1, h, i, j}, -1000);
            case masked::kept_where: return apply("Where", {booleans_of({1, 1, i, j}), scores, number_of(-1000)});
            case masked::dropped_where: return apply("Where", {booleans_of({b, 1, 1, j}), number_of(-1000), scores});
            case masked::both:
                return add("mask", apply("Where", {booleans_of({i, j}), scores, number_of(-1000)}), {b, 1, 1, j},
                           -1000);
            case masked::infinities: {  // of some queries all
                std::vector<float> values(i * j);
                for (std::size_t at = 0; at < values.size(); ++at)
                    values[at] = at / j % 5 == 3 || numbers_() % 3 == 0 ? -inf : 0;
                return apply("Add", {constant_of("mask", values, {i, j}), scores});
            }
        }
        return scores;
    }

    void write() {
        std::string q, k, v;
        write_heads(q, k, v);
        const float root = 1 / std::sqrt(std::sqrt(static_cast<float>(form_.size)));
        if (form_.scale == scaled::queries) q = apply("Mul", {q, number_of(root * root)});
        if (form_.scale == scaled::both) {
            q = apply("Mul", {q, number_of(root)});
            k = apply("Mul", {k, number_of(root)});
        }
        const std::string scores = mask_scores(scale_scores(apply("MatMul", {q, k})));
        std::string p = apply("Softmax", {scores}, {{"axis", whole(-1)}});
        if (form_.gives_zeros) p = apply("Where", {apply("IsNaN", {p}), number_of(0), p});
        std::string y = apply("MatMul", {p, v});
        if (form_.joins_heads) {
            places order{0, 2, 1, 3};
            if (form_.is_shaped_first) {
                y = shaped(y, {form_.batches, 1, form_.heads, form_.queries, form_.value_size});
                order = {0, 3, 1, 2, 4};
            }
            y = shaped(turned(y, order), {form_.batches, form_.queries, form_.heads * form_.value_size});
        }
        made.body.outputs.push_back({y, type_, {}});
    }

    attention_form form_;
    bool is_special_, is_exact_;
    io::dtype type_ = io::dtype::f32;
    std::mt19937 numbers_;
};

template <typename T>
std::vector<double> doubles_of(const any_tensor& from) {
    std::vector<double> made;
    for (const T& each : from.values<T>()) {
        if constexpr (std::is_same_v<T, double>)
            made.push_back(each);
        else
            made.push_back(static_cast<double>(static_cast<float>(each)));
    }
    return made;
}

template <typename T>
class attention : public ::testing::Test {
protected:
    static constexpr double unit = std::is_same_v<T, float> ? 4e-5 : std::is_same_v<T, half> ? 3e-3 : 2.4e-2;

    bool is_on_gpu() { return machine_.default_device().kind() == device_kind::cuda; }
    // On a CPU nodes with 16-bit numbers run one by one, and round between each two.
    double tolerance() { return is_on_gpu() || std::is_same_v<T, float> ? unit : 8 * unit; }
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }

    attention_form some_form() {
        attention_form made{.from = static_cast<heads_from>(any(0, 5)),
                            .scale = static_cast<scaled>(any(0, 4)),
                            .mask = static_cast<masked>(any(0, 7)),
                            .joins_heads = any(0, 2) != 0,
                            .gives_zeros = any(0, 2) == 0,
                            .is_shaped_first = any(0, 1) == 0,
                            .batches = any(1, 3),
                            .heads = any(1, 4),
                            .queries = any(1, 150),
                            .keys = any(1, 300),
                            .size = any(1, 40),
                            .value_size = any(1, 40)};
        if (any(0, 2) == 0) made.size = made.value_size = 32 * any(1, 4);
        if (any(0, 7) == 0) made.size = any(129, 256);
        if (made.from != heads_from::nothing && made.from != heads_from::reshapes) {
            made.keys = made.queries;
            made.value_size = made.size;
        }
        return made;
    }

    // Of so few queries that the warps of a GPU divide the keys among them.
    attention_form some_form_of_few_queries() {
        attention_form made = some_form();
        made.queries = any(1, 16);
        if (made.from != heads_from::nothing && made.from != heads_from::reshapes) made.keys = made.queries;
        return made;
    }

    static std::string words_of(const attention_form& of) {
        std::string made = "form";
        for (const std::size_t each :
             {static_cast<std::size_t>(of.from), static_cast<std::size_t>(of.scale), static_cast<std::size_t>(of.mask),
              static_cast<std::size_t>(of.joins_heads), static_cast<std::size_t>(of.gives_zeros),
              static_cast<std::size_t>(of.is_shaped_first), of.batches, of.heads, of.queries, of.keys, of.size,
              of.value_size}) {
            made += ' ' + std::to_string(each);
        }
        return made;
    }
    static bool is_one_step(const network& made) {
        return std::ranges::any_of(made.steps(), [](const network_step& each) {
            return std::ranges::count(each.operators, "MatMul") == 2 &&
                   std::ranges::count(each.operators, "Softmax") == 1;
        });
    }

    template <typename Written>
    void expect_as_in_f64(const attention_form& form, const std::vector<double>& a, const written<Written>& exact,
                          double within) {
        const auto answers = sync(sync(make_network(exact.made), cpu_).run(exact.inputs), cpu_);
        const auto b = doubles_of<double>(answers.at(0));
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t at = 0; at < a.size(); ++at) {
            const std::string where = words_of(form) + ", element " + std::to_string(at);
            if (std::isnan(b[at])) {
                ASSERT_TRUE(std::isnan(a[at])) << where << ": " << a[at];
            } else if (std::isinf(b[at])) {
                // A small weight may be 0 in 16 bits, and then its product with infinity is NaN.
                const bool may_be_nan = !std::is_same_v<T, float> && std::isnan(a[at]);
                ASSERT_TRUE(a[at] == b[at] || may_be_nan) << where << ": " << a[at];
            } else {
                ASSERT_NEAR(a[at], b[at], within * std::max(1.0, std::abs(b[at]))) << where;
            }
        }
    }

    std::mt19937 numbers_{11};
    runtime machine_;
    single_stream on_{machine_.default_device()};
    runtime host_{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream cpu_{host_.find("cpu:0")};
};
using types = ::testing::Types<float, half, bfloat16>;
TYPED_TEST_SUITE(attention, types);

}  // namespace

TYPED_TEST(attention, of_any_form_gives_what_the_nodes_give) {
    // With sanitizers a round on a CPU takes a third of a second.
    const int rounds = this->is_on_gpu() ? 150 : std::is_same_v<TypeParam, float> ? 40 : 10;
    for (int round = 0; round < rounds; ++round) {
        attention_form form = round % 4 == 1 ? this->some_form_of_few_queries() : this->some_form();
        if (this->is_on_gpu() && round % 4 == 2) form.batches = 24;  // many blocks: see attention.cu
        const bool is_special = round % 5 == 4;
        const auto seed = static_cast<unsigned>(round);
        const written<TypeParam> given(form, is_special, false, seed), exact(form, is_special, true, seed);
        // A model in 16 bits is the same in this precision.
        const bool is_narrow = !std::is_same_v<TypeParam, float> && round % 3 == 2;
        const precision what = !is_narrow                        ? precision::f32
                               : std::is_same_v<TypeParam, half> ? precision::f16
                                                                 : precision::bf16;
        const network made = sync(make_network(given.made, {.precision = what}), this->on_);
        ASSERT_TRUE(this->is_one_step(made)) << this->words_of(form);
        const auto answers = sync(made.run(given.inputs), this->on_);
        // Scores that nothing scales grow with the size, and what f32 cuts off them is in the exponentials.
        const double size = std::max(1.0, std::sqrt(static_cast<double>(form.size) / 64));
        this->expect_as_in_f64(form, doubles_of<TypeParam>(answers.at(0)), exact,
                               this->tolerance() * (std::is_same_v<TypeParam, float> ? size : 1));
        if (this->HasFatalFailure()) return;
    }
}

// Numbers of f32 that a GPU rounds to 16 bits.
TEST(attention_in_16_bits, gives_what_the_nodes_give_but_for_the_rounding) {
    runtime machine;
    single_stream on(machine.default_device());
    runtime host{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream cpu(host.find("cpu:0"));
    for (const precision what : {precision::f16, precision::bf16}) {
        for (unsigned round = 0; round < 8; ++round) {
            const attention_form form{.from = static_cast<heads_from>(round % 6),
                                      .scale = scaled::both,
                                      .mask = static_cast<masked>(round),
                                      .gives_zeros = round % 2 == 1,
                                      .queries = 70,
                                      .keys = 70,
                                      .size = 24,
                                      .value_size = 24};
            const written<float> given(form, false, false, round);
            const network made = sync(make_network(given.made, {.precision = what}), on);
            const auto a = sync(made.run(given.inputs), on),
                       b = sync(sync(make_network(given.made), cpu).run(given.inputs), cpu);
            const auto x = doubles_of<float>(a.at(0)), y = doubles_of<float>(b.at(0));
            ASSERT_EQ(x.size(), y.size());
            const double within = what == precision::f16 ? 4e-3 : 4e-2;
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (std::isnan(y[i])) {
                    ASSERT_TRUE(std::isnan(x[i])) << i;
                } else {
                    ASSERT_NEAR(x[i], y[i], within * std::max(1.0, std::abs(y[i]))) << round << ", element " << i;
                }
            }
        }
    }
}

TEST(attention_steps, are_one_command_however_heads_are_divided) {
    runtime machine;
    round_robin pool(machine.default_device(), 1);
    for (const heads_from from :
         {heads_from::one_product, heads_from::split, heads_from::sequence_first, heads_from::slices}) {
        const attention_form form{.from = from, .mask = masked::both, .queries = 6, .keys = 6};
        const written<float> given(form, false, false, 1);
        const network made = sync(make_network(given.made), pool);
        const auto& x = given.inputs.at(0).shape();
        EXPECT_EQ(commands_of<float>(made, pool, shape(std::span(x))), 2u) << static_cast<int>(from);
    }
}

// As exporters write it where lengths are known only when the network runs: the shapes of what is divided into heads,
// and the number that scales, are computed by nodes.
TEST(attention_steps, are_one_command_where_shapes_are_computed) {
    runtime machine;
    round_robin pool(machine.default_device(), 1);
    const auto write = [&](bool is_computed) {
        model made;
        made.path = "shapes.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {f32("x", {named("batch"), named("time"), of(8)})};
        made.body.constants = {{"heads", tensor_of<std::int64_t>({0, 0, 2, 4}, {4})},
                               {"last", tensor_of<std::int64_t>({-1}, {1})},
                               {"end", tensor_of<std::int64_t>({1000}, {1})},
                               {"one", tensor_of<float>({1}, {})},
                               {"half", tensor_of<float>({0.5f}, {1})},
                               {"all", tensor_of<std::int64_t>({0, 0, 8}, {3})},
                               {"none", tensor_of<std::int64_t>({0}, {1})}};
        const auto add = [&](std::string op, std::vector<std::string> from, std::string to, attributes with = {}) {
            made.body.nodes.push_back(make_node(std::move(op), std::move(from), {std::move(to)}));
            made.body.nodes.back().attributes = std::move(with);
        };
        add("Reshape", {"x", "heads"}, "divided");
        add("Transpose", {"divided"}, "q", {{"perm", wholes({0, 2, 1, 3})}});
        add("Transpose", {"divided"}, "k", {{"perm", wholes({0, 2, 3, 1})}});
        if (is_computed) {
            add("Shape", {"q"}, "of_q");
            add("Slice", {"of_q", "last", "end", "none"}, "size");
            add("Cast", {"size"}, "number", {{"to", whole(1)}});
            add("Sqrt", {"number"}, "root");
            add("Div", {"one", "root"}, "scale");
        }
        add("Mul", {"q", is_computed ? "scale" : "half"}, "scaled");
        add("MatMul", {"scaled", "k"}, "scores");
        add("Softmax", {"scores"}, "p", {{"axis", whole(-1)}});
        add("MatMul", {"p", "q"}, "sums");
        add("Transpose", {"sums"}, "turned", {{"perm", wholes({0, 2, 1, 3})}});
        add("Reshape", {"turned", "all"}, "y");
        made.body.outputs = {f32("y", {named("batch"), named("time"), of(8)})};
        return made;
    };
    const network computed = sync(make_network(write(true)), pool), constant = sync(make_network(write(false)), pool);
    EXPECT_EQ(commands_of<float>(computed, pool, shape{3, 5, 8}), 2u);
    EXPECT_EQ(commands_of<float>(constant, pool, shape{3, 5, 8}), 2u);
    std::vector<float> values(3 * 5 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const any_tensor x(values, {3, 5, 8});
    const auto a = sync(computed.run({x}), pool), b = sync(constant.run({x}), pool);
    for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(a[0].values<float>()[i], b[0].values<float>()[i], 1e-6f) << i;
    EXPECT_NE(a[0].values<float>()[0], 0.0f);
    for (const std::vector<std::size_t>& empty : {std::vector<std::size_t>{0, 5, 8}, {2, 0, 8}}) {
        const any_tensor none(std::vector<float>(), empty);
        EXPECT_EQ(sync(computed.run({none}), pool).at(0).shape(), empty);
        EXPECT_EQ(sync(constant.run({none}), pool).at(0).shape(), empty);
    }
}

// Causal attention of queries, keys and values that one product gives, as PyTorch writes it: the keys are turned twice,
// once for their shape alone, and the mask is computed from shapes.
TEST(attention_steps, are_one_command_beside_a_mask_that_follows_from_shapes) {
    runtime machine;
    round_robin pool(machine.default_device(), 1);
    model made;
    made.path = "causal.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("batch"), named("time"), of(24)})};
    made.body.constants = {{"heads", tensor_of<std::int64_t>({0, 0, 2, 4}, {4})},
                           {"thirds", tensor_of<std::int64_t>({8, 8, 8}, {3})},
                           {"all", tensor_of<std::int64_t>({0, 0, 8}, {3})},
                           {"two", tensor_of<std::int64_t>({2}, {1})},
                           {"three", tensor_of<std::int64_t>({3}, {1})},
                           {"one", tensor_of<float>({1}, {1})},
                           {"zero", tensor_of<float>({0}, {1})},
                           {"nothing", tensor_of<float>({-std::numeric_limits<float>::infinity()}, {1})}};
    const auto add = [&](std::string op, std::vector<std::string> from, std::vector<std::string> to,
                         attributes with = {}) {
        made.body.nodes.push_back(make_node(std::move(op), std::move(from), std::move(to)));
        made.body.nodes.back().attributes = std::move(with);
    };
    add("Split", {"x", "thirds"}, {"q0", "k0", "v0"}, {{"axis", whole(2)}});
    for (const std::string each : {"q", "k", "v"}) {
        add("Reshape", {each + "0", "heads"}, {each + "1"});
        add("Transpose", {each + "1"}, {each}, {{"perm", wholes({0, 2, 1, 3})}});
    }
    add("Shape", {"q"}, {"of_q"});
    add("Shape", {"k"}, {"of_k"});
    add("Slice", {"of_q", "two", "three"}, {"queries"});
    add("Slice", {"of_k", "two", "three"}, {"keys"});
    add("Concat", {"queries", "keys"}, {"places"}, {{"axis", whole(0)}});
    add("Expand", {"one", "places"}, {"ones"});
    add("Trilu", {"ones"}, {"lower"}, {{"upper", whole(0)}});
    add("Equal", {"lower", "zero"}, {"later"});
    add("Where", {"later", "nothing", "zero"}, {"mask"});
    add("Transpose", {"k1"}, {"turned"}, {{"perm", wholes({0, 2, 3, 1})}});
    add("MatMul", {"q", "turned"}, {"scores"});
    add("Add", {"scores", "mask"}, {"masked"});
    add("Softmax", {"masked"}, {"p"}, {{"axis", whole(-1)}});
    add("MatMul", {"p", "v"}, {"sums"});
    add("Transpose", {"sums"}, {"back"}, {{"perm", wholes({0, 2, 1, 3})}});
    add("Reshape", {"back", "all"}, {"y"});
    made.body.outputs = {f32("y", {named("batch"), named("time"), of(8)})};
    const network causal = sync(make_network(made), pool);
    EXPECT_EQ(commands_of<float>(causal, pool, shape{3, 5, 24}), 3u);  // a copy of the mask, and memory for y
    std::vector<float> values(3 * 5 * 24);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const auto got = sync(causal.run({any_tensor(values, {3, 5, 24})}), pool);
    const auto y = got[0].values<float>();
    for (std::size_t row = 0; row < 3; ++row) {
        for (std::size_t e = 0; e < 8; ++e)  // the first token sees itself
            ASSERT_NEAR(y[row * 40 + e], values[row * 120 + 16 + e], 1e-6f) << row << ", " << e;
        ASSERT_GT(std::abs(y[row * 40 + 8] - values[row * 120 + 24 + 16]), 1e-3f);
    }
}

// Keys and values that are constants, as in a codebook: the dense layers before and after do not take them for theirs.
TEST(attention_steps, of_constant_keys_and_values_give_what_the_nodes_give) {
    runtime machine;
    single_stream on(machine.default_device());
    std::vector<float> numbers(16);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i * i));
    const auto answer = [&](bool has_layer_before, bool gives_scores) {
        model made;
        made.path = "codebook.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {f32("x", {named("rows"), of(4)})};
        std::vector<float> constants = numbers;
        for (const char* const name : {"a_keys", "b_values", "c_weights"}) {
            std::ranges::rotate(constants, constants.begin() + 5);
            made.body.constants[name] = tensor_of<float>(constants, {4, 4});
        }
        const char* const queries = has_layer_before ? "q" : "x";
        if (has_layer_before) made.body.nodes.push_back(make_node("MatMul", {"x", "c_weights"}, {"q"}));
        made.body.nodes.push_back(make_node("MatMul", {queries, "a_keys"}, {"scores"}));
        made.body.nodes.push_back(make_node("Softmax", {"scores"}, {"p"}));
        made.body.nodes.push_back(make_node("MatMul", {"p", "b_values"}, {"y"}));
        made.body.outputs = {f32("y", {named("rows"), of(4)})};
        if (gives_scores) made.body.outputs.push_back(f32("scores", {named("rows"), of(4)}));  // then the nodes run
        const auto given = sync(sync(make_network(made), on).run({any_tensor(numbers, {4, 4})}), on);
        const auto y = given[0].values<float>();
        return std::vector<float>(y.begin(), y.end());
    };
    for (const bool has_layer_before : {false, true}) {
        const std::vector<float> together = answer(has_layer_before, false), expected = answer(has_layer_before, true);
        for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_NEAR(together[i], expected[i], 1e-5f) << has_layer_before << ", " << i;
    }
}

// Where nodes need a value of the stretch too, or the numbers have no kernel, the nodes run.
TEST(attention_steps, of_values_that_others_read_give_these_too) {
    runtime machine;
    single_stream on(machine.default_device());
    const attention_form form{};
    written<float> given(form, false, false, 1), alone = given;
    std::string turned, probabilities;
    for (const node& each : given.made.body.nodes) {
        if (each.op == "Transpose" && turned.empty()) turned = each.outputs[0];
        if (each.op == "Softmax") probabilities = each.outputs[0];
    }
    const auto expected = sync(sync(make_network(alone.made), on).run(alone.inputs), on);
    for (const std::string& also : {turned, probabilities}) {
        written<float> more = given;
        more.made.body.outputs.push_back({also, io::dtype::f32, {}});
        const auto both = sync(sync(make_network(more.made), on).run(more.inputs), on);
        ASSERT_EQ(both.size(), 2u);
        const auto a = both[0].values<float>(), b = expected[0].values<float>();
        for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5f) << i;
        ASSERT_EQ(both[1].shape(), (also == turned ? lengths{2, 3, 9, 8} : lengths{2, 3, 9, 11}));
    }
}

TYPED_TEST(attention, of_a_batch_has_the_bits_of_each_row_alone) {
    attention_form form{
        .from = heads_from::one_product, .batches = 4, .queries = 77, .keys = 77, .size = 16, .value_size = 16};
    const written<TypeParam> all(form, false, false, 3);
    form.batches = 1;
    written<TypeParam> one(form, false, false, 3);
    const auto together = sync(sync(make_network(all.made), this->on_).run(all.inputs), this->on_);
    const auto values = all.inputs.at(0).template values<TypeParam>(),
               made = together.at(0).template values<TypeParam>();
    const std::size_t of_input = values.size() / 4, of_output = made.size() / 4;
    for (std::size_t row = 0; row < 4; ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * of_input);
        const std::vector<TypeParam> own(first, first + static_cast<std::ptrdiff_t>(of_input));
        const auto answers =
            sync(sync(make_network(one.made), this->on_).run({any_tensor(own, {1, 77, of_input / 77})}), this->on_);
        const auto alone = answers.at(0).template values<TypeParam>();
        ASSERT_EQ(0, std::memcmp(alone.data(), &made[row * of_output], of_output * sizeof(TypeParam))) << row;
    }
}

// A block of a transformer: attention and a perceptron with GELU, each added to what it reads and normalized.
model block_of(std::size_t width, std::size_t heads, unsigned seed) {
    std::mt19937 numbers(seed);
    model made;
    made.path = "block.onnx";
    made.opsets = {{"", 17}};
    const auto constant_of = [&](const std::string& name, const lengths& shape, float size, float offset = 0) {
        std::normal_distribution<float> one(offset, size);
        std::vector<float> values(product(shape));
        for (float& each : values) each = one(numbers);
        made.body.constants[name] = tensor_of(values, shape);
    };
    const auto list_constant = [&](const std::string& name, const places& values) {
        made.body.constants[name] = tensor_of(values, {values.size()});
    };
    const auto number_constant = [&](const std::string& name, float value) {
        made.body.constants[name] = tensor_of<float>({value}, {});
    };
    const auto add = [&](std::string op, std::vector<std::string> from, std::vector<std::string> to,
                         attributes with = {}) {
        made.body.nodes.push_back(make_node(std::move(op), std::move(from), std::move(to)));
        made.body.nodes.back().attributes = std::move(with);
    };
    const auto wide = static_cast<std::int64_t>(width), of_heads = static_cast<std::int64_t>(heads);
    const float size = 1 / std::sqrt(static_cast<float>(width));
    constant_of("w_in", {width, 3 * width}, size);
    constant_of("b_in", {3 * width}, 0.1f);
    constant_of("w_out", {width, width}, size);
    constant_of("b_out", {width}, 0.1f);
    constant_of("w_up", {width, 4 * width}, size);
    constant_of("b_up", {4 * width}, 0.1f);
    constant_of("w_down", {4 * width, width}, size / 2);
    constant_of("b_down", {width}, 0.1f);
    constant_of("scale", {width}, 0.2f, 1);
    constant_of("shift", {width}, 0.2f);
    list_constant("thirds", {wide, wide, wide});
    list_constant("divided", {0, 0, of_heads, wide / of_heads});
    list_constant("whole", {0, 0, wide});
    number_constant("root_of_two", std::sqrt(2.0f));
    number_constant("one", 1);
    number_constant("half", 0.5f);
    number_constant("by", std::sqrt(static_cast<float>(width / heads)));
    add("MatMul", {"x", "w_in"}, {"all"});
    add("Add", {"all", "b_in"}, {"biased"});
    add("Split", {"biased", "thirds"}, {"q", "k", "v"}, {{"axis", whole(-1)}});
    for (const std::string each : {"q", "k", "v"}) {
        add("Reshape", {each, "divided"}, {each + "_heads"});
        const bool is_key = each == "k";
        add("Transpose", {each + "_heads"}, {each + "_first"},
            {{"perm", wholes(is_key ? places{0, 2, 3, 1} : places{0, 2, 1, 3})}});
    }
    add("MatMul", {"q_first", "k_first"}, {"scores"});
    add("Div", {"scores", "by"}, {"scaled"});
    add("Softmax", {"scaled"}, {"p"}, {{"axis", whole(-1)}});
    add("MatMul", {"p", "v_first"}, {"sums"});
    add("Transpose", {"sums"}, {"turned"}, {{"perm", wholes({0, 2, 1, 3})}});
    add("Reshape", {"turned", "whole"}, {"joined"});
    add("MatMul", {"joined", "w_out"}, {"out"});
    add("Add", {"b_out", "out"}, {"attended"});
    add("Add", {"x", "attended"}, {"first"});
    add("LayerNormalization", {"first", "scale", "shift"}, {"n"}, {{"axis", whole(-1)}});
    add("MatMul", {"n", "w_up"}, {"up"});
    add("Add", {"up", "b_up"}, {"u"});
    add("Div", {"u", "root_of_two"}, {"g1"});
    add("Erf", {"g1"}, {"g2"});
    add("Add", {"g2", "one"}, {"g3"});
    add("Mul", {"u", "g3"}, {"g4"});
    add("Mul", {"g4", "half"}, {"g"});
    add("MatMul", {"g", "w_down"}, {"down"});
    add("Add", {"down", "b_down"}, {"d"});
    add("Add", {"n", "d"}, {"second"});
    add("LayerNormalization", {"second", "scale", "shift"}, {"y"}, {{"axis", whole(-1)}});
    made.body.inputs = {f32("x", {named("batch"), named("time"), of(width)})};
    made.body.outputs = {f32("y", {named("batch"), named("time"), of(width)})};
    return made;
}

// With heads of more elements than the command takes, the nodes run.
TEST(transformer_block, gives_the_same_numbers_in_16_bits_but_for_the_rounding) {
    runtime machine;
    single_stream on(machine.default_device());
    runtime host{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream cpu(host.find("cpu:0"));
    for (const auto& [width, heads] : {std::pair<std::size_t, std::size_t>{48, 3}, {64, 2}, {260, 1}}) {
        const model block = block_of(width, heads, static_cast<unsigned>(width));
        std::mt19937 numbers(5);
        std::normal_distribution<float> one;
        std::vector<float> values(2 * 37 * width);
        for (float& each : values) each = one(numbers);
        const any_tensor x(values, {2, 37, width});
        const auto exact = sync(sync(make_network(block), cpu).run({x}), cpu);
        const auto b = exact[0].values<float>();
        for (const precision what : {precision::f32, precision::f16, precision::bf16}) {
            const network made = sync(make_network(block, {.precision = what}), on);
            const auto answers = sync(made.run({x}), on);
            const auto a = answers[0].values<float>();
            ASSERT_EQ(a.size(), b.size());
            const float within = what == precision::f32 ? 2e-4f : what == precision::f16 ? 2e-2f : 1.5e-1f;
            for (std::size_t i = 0; i < a.size(); ++i)
                ASSERT_NEAR(a[i], b[i], within) << width << " " << to_string(what) << ", element " << i;
        }
    }
}

TEST(transformer_block, of_a_cpu_is_few_steps) {
    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream pool(machine.find("cpu:0"));
    const network made = sync(make_network(block_of(48, 3, 1)), pool);
    const auto steps = made.steps();
    const auto has = [&](std::initializer_list<std::string_view> operators) {
        return std::ranges::any_of(steps, [&](const network_step& each) {
            return std::ranges::all_of(operators, [&](std::string_view op) {
                return std::ranges::find(each.operators, op) != each.operators.end();
            });
        });
    };
    EXPECT_TRUE(has({"MatMul", "Softmax"}));
    EXPECT_TRUE(has({"MatMul", "Add", "Gelu"}));  // the perceptron with GELU
}

// The kernel of a GPU, on the host: a sum of numbers of different types, and its normalization in two types.
TEST(residual_norm, gives_the_sum_and_its_normalization) {
    const std::size_t rows = 3, width = 70;
    std::mt19937 numbers(3);
    std::normal_distribution<float> one(2, 3);
    std::vector<float> a(rows * width), scale(width), bias(width);
    std::vector<half> b;
    for (float& each : a) each = one(numbers);
    for (std::size_t i = 0; i < a.size(); ++i) b.push_back(half(one(numbers)));
    for (std::size_t i = 0; i < width; ++i) scale[i] = one(numbers), bias[i] = one(numbers);
    const std::filesystem::path path = "here.onnx";
    const operators::run_environment environment{
        .path = &path, .command_name = "norm", .context = nullptr, .run_graph = {}};
    const node what = make_node("LayerNormalization", {"x", "scale", "bias"}, {"y"});
    std::vector<any_tensor> none, outputs(1);
    operators::node_call in(environment, what, 0, 17, operators::place::host, none, outputs);
    const lengths shape{rows, width};
    const operators::residual_results to{in.make(io::dtype::f32, shape), in.make(io::dtype::f32, shape),
                                         in.make(io::dtype::bf16, shape)};
    operators::add_and_normalize(in, any_tensor(a, shape), any_tensor(b, shape), any_tensor(scale, {width}),
                                 any_tensor(bias, {width}), 1e-5, to);
    const auto x = to.sum.values<float>(), y = to.normalized.values<float>();
    const auto narrow = to.narrow.values<bfloat16>();
    for (std::size_t row = 0; row < rows; ++row) {
        double mean = 0, variance = 0;
        const auto number = [&](std::size_t j) {
            const std::size_t i = row * width + j;
            return static_cast<double>(a[i]) + static_cast<double>(static_cast<float>(b[i]));
        };
        for (std::size_t j = 0; j < width; ++j) mean += number(j) / static_cast<double>(width);
        for (std::size_t j = 0; j < width; ++j)
            variance += (number(j) - mean) * (number(j) - mean) / static_cast<double>(width);
        for (std::size_t j = 0; j < width; ++j) {
            const std::size_t i = row * width + j;
            const double expected = (number(j) - mean) / std::sqrt(variance + 1e-5) * static_cast<double>(scale[j]) +
                                    static_cast<double>(bias[j]);
            ASSERT_NEAR(x[i], number(j), 1e-5) << i;
            ASSERT_NEAR(y[i], expected, 1e-4) << i;
            ASSERT_EQ(static_cast<float>(narrow[i]), static_cast<float>(bfloat16(y[i]))) << i;
        }
    }
}

// Rows that a team of a GPU keeps in registers, whole or in part, and rows that are too long for that.
TEST(residual_norm, of_rows_of_any_width) {
    runtime machine;
    single_stream on(machine.default_device());
    const bool is_on_gpu = machine.default_device().kind() == device_kind::cuda;
    std::mt19937 numbers(7);
    std::normal_distribution<float> one(2, 3);
    const auto some = [&](std::size_t count) {
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers);
        return made;
    };
    for (const std::size_t width : {1, 5, 8, 30, 64, 192, 500, 512, 1000, 1024, 1030, 2048, 8192, 8200}) {
        const std::size_t rows = width % 3 == 0 ? 1 : width < 600 ? 300 : 3;
        model made;
        made.path = "rows.onnx";
        made.opsets = {{"", 17}};
        made.body.inputs = {f32("a", {named("rows"), of(width)}), f32("b", {named("rows"), of(width)})};
        const std::vector<float> scale = some(width), bias = some(width), a = some(rows * width),
                                 b = some(rows * width);
        made.body.constants = {{"scale", tensor_of(scale, {width})}, {"bias", tensor_of(bias, {width})}};
        made.body.nodes = {make_node("Add", {"a", "b"}, {"sum"}),
                           make_node("LayerNormalization", {"sum", "scale", "bias"}, {"y"})};
        made.body.outputs = {f32("sum", {named("rows"), of(width)}), f32("y", {named("rows"), of(width)})};
        const network ready = sync(make_network(made), on);
        if (is_on_gpu) {
            EXPECT_EQ(ready.steps().size(), 1u);
        }
        const auto answers = sync(ready.run({any_tensor(a, {rows, width}), any_tensor(b, {rows, width})}), on);
        const auto sum = answers[0].values<float>(), y = answers[1].values<float>();
        for (std::size_t row = 0; row < rows; ++row) {
            double mean = 0, variance = 0;
            const auto number = [&](std::size_t j) {
                return static_cast<double>(a[row * width + j] + b[row * width + j]);
            };
            for (std::size_t j = 0; j < width; ++j) mean += number(j) / static_cast<double>(width);
            for (std::size_t j = 0; j < width; ++j)
                variance += (number(j) - mean) * (number(j) - mean) / static_cast<double>(width);
            for (std::size_t j = 0; j < width; ++j) {
                const std::size_t i = row * width + j;
                const double expected =
                    (number(j) - mean) / std::sqrt(variance + 1e-5) * static_cast<double>(scale[j]) +
                    static_cast<double>(bias[j]);
                ASSERT_EQ(static_cast<double>(sum[i]), number(j)) << width << ", element " << i;
                ASSERT_NEAR(y[i], expected, 1e-4) << width << ", element " << i;
            }
        }
    }
}

// A model that has 16 bits itself: what it declares is what it gives.
TEST(residual_norm, of_a_model_in_16_bits_gives_16_bits) {
    runtime machine;
    single_stream on(machine.default_device());
    const auto halves = [](const std::vector<float>& of, std::vector<std::size_t> shape) {
        return tensor_of(std::vector<half>(of.begin(), of.end()), std::move(shape));
    };
    model made;
    made.path = "halves.onnx";
    made.opsets = {{"", 17}};
    const std::vector<dimension> rows{named("rows"), of(4)};
    made.body.inputs = {{"x", io::dtype::f16, rows}};
    made.body.constants = {{"one", halves({1, 1, 1, 1}, {4})},
                           {"wide", tensor_of<float>({1, 1, 1, 1}, {4})},
                           {"other", halves({0, 1, 2, 3}, {1, 4})}};
    made.body.outputs = {{"sum", io::dtype::f16, rows}, {"y", io::dtype::f16, rows}};
    for (const char* const scale : {"one", "wide"}) {
        made.body.nodes = {make_node("Add", {"x", "x"}, {"sum"}),
                           make_node("LayerNormalization", {"sum", scale}, {"y"})};
        for (const precision what : {precision::f32, precision::f16}) {
            const network ready = sync(make_network(made, {.precision = what}), on);
            const any_tensor x(halves({1, 2, 3, 4, 0.1f, 0.2f, 0.3f, 0.4f}, {2, 4}));
            const auto inferred = ready.infer({x}), answers = sync(ready.run({x}), on);
            for (const auto& all : {inferred, answers})
                for (const any_tensor& each : all) EXPECT_EQ(each.type(), io::dtype::f16) << scale;
            const auto sums = answers[0].values<half>();
            EXPECT_EQ(static_cast<float>(sums[4]), static_cast<float>(half(2 * static_cast<float>(half(0.1f)))));
        }
    }
}

}  // namespace sluice::nn::attention_tests
