// SPDX-License-Identifier: Apache-2.0
// Tensors of random numbers. Element i is a function of the seed and i (sluice/kernels/philox.hpp). A given seed gives
// the same numbers each time; without one each run of the network draws a seed.
#include <bit>
#include <cmath>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/table.hpp"
#include "sluice/kernels/philox.hpp"
#include "sluice/kernels/random.hpp"

namespace sluice::nn::operators {
namespace {

std::uint64_t random_seed(const node_call& in) {
    if (in.has("seed")) return std::bit_cast<std::uint32_t>(in.real("seed", 0));
    return in.where() == place::nowhere ? 0 : fresh_seed();
}

// The type that an attribute names, or another one where it is not there.
io::dtype random_type(const node_call& in, io::dtype otherwise) {
    using enum io::dtype;
    static constexpr std::pair<std::int64_t, io::dtype> types[] = {
        {1, f32},     {2, u8},   {3, i8},   {4, u16},  {5, i16},  {6, i32},  {7, i64},
        {9, boolean}, {10, f16}, {11, f64}, {12, u32}, {13, u64}, {16, bf16}};
    if (!in.has("dtype")) return otherwise;
    for (const auto& [number, type] : types)
        if (number == in.integer("dtype", 0)) return type;
    in.refuse_unsupported("names the element type " + std::to_string(in.integer("dtype", 0)) +
                          ", which is not supported");
}

// In [0, 1), as fine as the type is.
template <typename Number>
SLUICE_KERNEL Number random_uniform(std::uint64_t seed, std::size_t i) {
    const philox_words words = philox(seed, 0, i);
    if constexpr (std::is_same_v<Number, double>) {
        const std::uint64_t both = std::uint64_t{words.word[0]} << 32 | words.word[1];
        return static_cast<double>(both >> 11) * 0x1p-53;
    } else {
        return uniform_from(words.word[0]);
    }
}

template <typename T>
struct uniform_element {
    T* to;
    std::uint64_t seed;
    float low, high;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        using number = computed<T>;
        const number a = static_cast<number>(low), b = static_cast<number>(high);
        const T made = static_cast<T>(a + random_uniform<number>(seed, i) * (b - a));
        // What rounding moves to the end is the beginning.
        to[i] = static_cast<number>(made) < b ? made : static_cast<T>(a);
    }
};

template <typename T>
struct normal_element {
    T* to;
    std::uint64_t seed;
    float mean, deviation;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        using number = computed<T>;
        const auto made = static_cast<number>(normal_from(philox(seed, 0, i).word[0]));
        to[i] = static_cast<T>(static_cast<number>(mean) + static_cast<number>(deviation) * made);
    }
};

template <bool IsNormal>
void random_elements(node_call& in, io::dtype type, lengths shape) {
    if (!is_float(type)) in.refuse_unsupported("makes elements of type " + std::string(io::to_string(type)));
    const float first = IsNormal ? in.real("mean", 0) : in.real("low", 0);
    const float second = IsNormal ? in.real("scale", 1) : in.real("high", 1);
    if (!std::isfinite(first) || !std::isfinite(second) || (IsNormal ? second < 0 : second < first))
        in.refuse("has a distribution of " + std::to_string(first) + " and " + std::to_string(second));
    const any_tensor& made = in.make_output(0, type, std::move(shape));
    const std::uint64_t seed = random_seed(in);
    with_float(in, made, [&]<typename T>() {
        using kernel = std::conditional_t<IsNormal, normal_element<T>, uniform_element<T>>;
        each(in, made.elements(), kernel{in.write<T>(made), seed, first, second}, {}, {&made});
    });
}

template <bool IsNormal>
void random_of_shape(node_call& in) {
    if (!in.has("shape")) in.refuse("has no shape");
    lengths shape;
    for (const std::int64_t each : in.integer_list("shape")) {
        if (each < 0) in.refuse("has the length " + std::to_string(each));
        shape.push_back(static_cast<std::size_t>(each));
    }
    random_elements<IsNormal>(in, random_type(in, io::dtype::f32), std::move(shape));
}

template <bool IsNormal>
void random_like(node_call& in) {
    random_elements<IsNormal>(in, random_type(in, in.input(0).type()), in.input(0).shape());
}

// --- Bernoulli ---------------------------------------------------------------------------------------------------

template <typename T>
struct bernoulli_element {
    const T* probabilities;
    std::uint8_t* to;
    std::uint64_t seed;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        using number = computed<T>;
        to[i] = random_uniform<number>(seed, i) < static_cast<number>(probabilities[i]) ? 1 : 0;
    }
};

void bernoulli(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type())) in.refuse_type(x);
    const io::dtype type = random_type(in, x.type());
    const any_tensor drawn = in.make(io::dtype::boolean, x.shape());
    const std::uint64_t seed = random_seed(in);
    with_float(in, x, [&]<typename T>() {
        each(in, x.elements(), bernoulli_element<T>{in.read<T>(x), in.write<std::uint8_t>(drawn), seed}, {&x},
             {&drawn});
    });
    if (type == io::dtype::boolean) return in.set_output(0, drawn);
    expression e(in);
    const auto read = e.input(drawn);
    e.give(0, type, read);
    e.run();
}

// --- Multinomial -------------------------------------------------------------------------------------------------

// One draw from a row of logarithms of probabilities, of which only the differences matter.
template <typename T>
struct multinomial_draw {
    const T* logarithms;
    std::int32_t* to;
    std::size_t classes, draws;
    std::uint64_t seed;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const T* const row = logarithms + i / draws * classes;
        using number = computed<T>;
        constexpr number nothing = -static_cast<number>(INFINITY);
        number greatest = nothing;
        for (std::size_t k = 0; k < classes; ++k) {
            const number each = static_cast<number>(row[k]);
            greatest = each > greatest ? each : greatest;
        }
        double sum = 0;
        for (std::size_t k = 0; k < classes; ++k)
            sum += static_cast<double>(std::exp(static_cast<number>(row[k]) - greatest));
        double left = random_uniform<double>(seed, i) * sum;
        std::size_t chosen = 0;
        for (std::size_t k = 0; k < classes; ++k) {
            const double each = static_cast<double>(std::exp(static_cast<number>(row[k]) - greatest));
            if (each > 0) chosen = k;  // the last one that is possible, if rounding leaves something
            if (left < each) break;
            left -= each;
        }
        to[i] = static_cast<std::int32_t>(chosen);
    }
};

void multinomial(node_call& in) {
    const any_tensor& x = in.input(0);
    if (!is_float(x.type())) in.refuse_type(x);
    const io::dtype type = random_type(in, io::dtype::i32);
    if (type != io::dtype::i32 && type != io::dtype::i64)
        in.refuse("makes elements of type " + std::string(io::to_string(type)));
    const std::int64_t draws = in.integer("sample_size", 1);
    if (x.shape().size() != 2 || x.shape()[1] == 0 || x.shape()[1] > 0x7fffffff || draws < 0)
        in.refuse_shapes("draws " + std::to_string(draws) + " times from " + to_string(x));
    const lengths shape = {x.shape()[0], static_cast<std::size_t>(draws)};
    const any_tensor drawn =
        type == io::dtype::i32 ? in.make_output(0, io::dtype::i32, shape) : in.make(io::dtype::i32, shape);
    const std::uint64_t seed = random_seed(in);
    with_float(in, x, [&]<typename T>() {
        each(in, drawn.elements(),
             multinomial_draw<T>{in.read<T>(x), in.write<std::int32_t>(drawn), x.shape()[1], shape[1], seed}, {&x},
             {&drawn});
    });
    if (type == io::dtype::i32) return;
    expression e(in);
    const auto read = e.input(drawn);
    e.give(0, type, read);
    e.run();
}

definition random_operator(std::string_view name, std::size_t inputs, std::vector<std::string_view> attributes,
                           void (*run)(node_call&), bool is_like = false) {
    return {.name = name,
            .least_inputs = inputs,
            .most_inputs = inputs,
            .most_outputs = 1,
            .attributes = std::move(attributes),
            .run = run,
            .shape_inputs = is_like ? input_bit(0) : none,
            .is_random = true};
}

}  // namespace

std::span<const definition> random_numbers() {
    static const std::vector<definition> operators = {
        random_operator("RandomNormal", 0, {"dtype", "mean", "scale", "seed", "shape"}, &random_of_shape<true>),
        random_operator("RandomUniform", 0, {"dtype", "high", "low", "seed", "shape"}, &random_of_shape<false>),
        random_operator("RandomNormalLike", 1, {"dtype", "mean", "scale", "seed"}, &random_like<true>, true),
        random_operator("RandomUniformLike", 1, {"dtype", "high", "low", "seed"}, &random_like<false>, true),
        random_operator("Bernoulli", 1, {"dtype", "seed"}, &bernoulli),
        random_operator("Multinomial", 1, {"dtype", "sample_size", "seed"}, &multinomial),
    };
    return operators;
}

}  // namespace sluice::nn::operators
