// SPDX-License-Identifier: Apache-2.0
// LinearAttention, RotaryEmbedding, SwiGLU.
#include <cmath>

#include "nn/operators/attention_parts.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"

namespace sluice::nn::operators {
namespace {

// --- LinearAttention ---------------------------------------------------------------------------------------------

// One column of the state, over all steps: column m of [key size, value size] for a batch and a head of keys.
template <typename T>
struct linear_attention_column {
    using number = computed<T>;

    const T *query, *key, *value, *decay, *rate;  // decay and rate may be null
    number* state;                                // [batch, heads, key size, value size]
    T* to;
    std::size_t steps, heads, group, key_size, value_size;
    std::size_t decay_size,
        rate_heads;  // decay for each element of the key or for all of them; rates of each head or 1
    in_word<bool> is_corrected;
    in_word<number> scale;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t column = i % value_size, head = i / value_size % heads, batch = i / value_size / heads;
        number* const s = state + (batch * heads + head) * key_size * value_size + column;
        for (std::size_t t = 0; t < steps; ++t) {
            const std::size_t row = batch * steps + t;
            const T* const k = key + (row * heads + head) * key_size;
            number kept = 0;  // what the state holds for the key
            for (std::size_t d = 0; d < key_size; ++d) {
                number& each = s[d * value_size];
                if (decay != nullptr)
                    each *= std::exp(
                        static_cast<number>(decay[(row * heads + head) * decay_size + (decay_size == 1 ? 0 : d)]));
                kept += each * static_cast<number>(k[d]);
            }
            number added = static_cast<number>(value[(row * heads + head) * value_size + column]);
            if (is_corrected) {
                const number of = static_cast<number>(rate[row * rate_heads + (rate_heads == 1 ? 0 : head)]);
                added = of * (added - kept);
            }
            for (std::size_t d = 0; d < key_size; ++d) s[d * value_size] += static_cast<number>(k[d]) * added;
            for (std::size_t g = 0; g < group; ++g) {
                const std::size_t query_head = row * heads * group + head * group + g;
                const T* const q = query + query_head * key_size;
                number sum = 0;
                for (std::size_t d = 0; d < key_size; ++d) sum += static_cast<number>(q[d]) * s[d * value_size];
                to[query_head * value_size + column] = static_cast<T>(scale * sum);
            }
        }
    }
};

template <typename Number>
struct linear_attention_zeros {
    Number* to;
    SLUICE_KERNEL void operator()(std::size_t i) const { to[i] = 0; }
};

void linear_attention_cast(node_call& in, const any_tensor& from, const any_tensor& to) {
    expression e(in);
    const auto read = e.input(from);
    e.give(to, read);
    e.run();
}

}  // namespace

void linear_attention(node_call& in) {
    const any_tensor &query = in.input(0), &key = in.input(1), &value = in.input(2);
    if (!is_float(query.type())) in.refuse_type(query);
    for (std::size_t i = 1; i < in.input_count(); ++i) {
        if (!in.has_input(i)) continue;
        if (i == 3 ? !is_float(in.input(i).type()) : in.input(i).type() != query.type()) in.refuse_type(in.input(i));
    }
    const std::string rule = in.text("update_rule", "gated_delta");
    const bool is_gated = rule == "gated" || rule == "gated_delta", is_delta = rule == "delta" || rule == "gated_delta";
    if (!is_gated && !is_delta && rule != "linear") in.refuse("has the update rule '" + rule + "'");
    if (is_gated != in.has_input(4) || is_delta != in.has_input(5))
        in.refuse("has the update rule '" + rule + "', which does not fit its inputs decay and beta");
    const std::int64_t query_heads = in.integer("q_num_heads", 0), key_heads = in.integer("kv_num_heads", 0);
    if (query_heads <= 0 || key_heads <= 0 || query_heads % key_heads != 0)
        in.refuse("has " + std::to_string(query_heads) + " heads of queries and " + std::to_string(key_heads) +
                  " of keys");
    const auto heads = static_cast<std::size_t>(key_heads), group = static_cast<std::size_t>(query_heads / key_heads);
    const auto refuse_input = [&](const any_tensor& x) {
        in.refuse_shapes("has the input " + to_string(x) + ", which does not fit the query " + to_string(query));
    };
    if (query.shape().size() != 3 || query.shape()[2] % (heads * group) != 0) refuse_input(query);
    const std::size_t batch = query.shape()[0], steps = query.shape()[1], key_size = query.shape()[2] / heads / group;
    if (key.shape() != lengths{batch, steps, heads * key_size}) refuse_input(key);
    if (value.shape().size() != 3 || value.shape()[0] != batch || value.shape()[1] != steps ||
        value.shape()[2] % heads != 0)
        refuse_input(value);
    const std::size_t value_size = value.shape()[2] / heads;
    std::size_t decay_size = 1, rate_heads = 1;
    static const any_tensor nothing;
    const any_tensor& decay = is_gated ? in.input(4) : nothing;
    const any_tensor& rate = is_delta ? in.input(5) : nothing;
    if (is_gated) {
        if (decay.shape() != lengths{batch, steps, heads}) decay_size = key_size;
        if (decay.shape() != lengths{batch, steps, heads * decay_size}) refuse_input(decay);
    }
    if (is_delta) {
        if (rate.shape() != lengths{batch, steps, 1}) rate_heads = heads;
        if (rate.shape() != lengths{batch, steps, rate_heads}) refuse_input(rate);
    }
    // The state is kept in float, or double.
    const lengths state_shape = {batch, heads, key_size, value_size};
    const io::dtype state_type = in.has_input(3) ? in.input(3).type() : query.type();
    const io::dtype kept_type = query.type() == io::dtype::f64 ? io::dtype::f64 : io::dtype::f32;
    if (in.has_input(3) && in.input(3).shape() != state_shape) refuse_input(in.input(3));
    const bool is_output = state_type == kept_type && in.wants_output(1);
    const any_tensor state = is_output ? in.make_output(1, kept_type, state_shape) : in.make(kept_type, state_shape);
    if (in.has_input(3)) linear_attention_cast(in, in.input(3), state);
    const any_tensor& made = in.make_output(0, query.type(), {batch, steps, heads * group * value_size});
    with_float(in, query, [&]<typename T>() {
        using number = computed<T>;
        if (!in.has_input(3))
            each(in, state.elements(), linear_attention_zeros<number>{in.write<number>(state)}, {}, {&state});
        const double scale = in.real("scale", 0) != 0 ? in.real("scale", 0)
                             : key_size == 0          ? 1
                                                      : 1 / std::sqrt(static_cast<double>(key_size));
        const linear_attention_column<T> kernel{.query = in.read<T>(query),
                                                .key = in.read<T>(key),
                                                .value = in.read<T>(value),
                                                .decay = in.read<T>(decay),
                                                .rate = in.read<T>(rate),
                                                .state = in.write<number>(state),
                                                .to = in.write<T>(made),
                                                .steps = steps,
                                                .heads = heads,
                                                .group = group,
                                                .key_size = key_size,
                                                .value_size = value_size,
                                                .decay_size = decay_size,
                                                .rate_heads = rate_heads,
                                                .is_corrected = is_delta,
                                                .scale = static_cast<number>(scale)};
        each(in, batch * heads * value_size, kernel, {&query, &key, &value, &decay, &rate}, {&made, &state});
    });
    if (in.wants_output(1) && !is_output) linear_attention_cast(in, state, in.make_output(1, state_type, state_shape));
}

// --- RotaryEmbedding ---------------------------------------------------------------------------------------------

namespace {

template <typename T>
struct rotated_element {
    const T *x, *cosines, *sines;
    const std::int64_t* positions;  // or null: the rows of the angles are those of batch and position
    T* y;
    std::size_t heads, steps, size, rotated, rows;
    in_word<bool> is_packed, is_interleaved;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t d = i % size;
        if (d >= rotated) {
            y[i] = x[i];
            return;
        }
        const std::size_t step = is_packed ? i / size / heads % steps : i / size % steps;
        const std::size_t batch = i / size / heads / steps, half = rotated / 2;
        std::size_t row = batch * steps + step;
        if (positions != nullptr) {
            const std::int64_t given = positions[row];
            row = given < 0 ? 0 : static_cast<std::size_t>(given) < rows ? static_cast<std::size_t>(given) : rows - 1;
        }
        const std::size_t angle = is_interleaved ? d / 2 : d % half;
        const bool is_first = is_interleaved ? d % 2 == 0 : d < half;
        const std::size_t away = is_interleaved ? 1 : half;
        const std::size_t other = is_first ? i + away : i - away;
        using number = computed<T>;
        const number cosine = static_cast<number>(cosines[row * half + angle]),
                     sine = static_cast<number>(sines[row * half + angle]);
        const number mine = static_cast<number>(x[i]), its = static_cast<number>(x[other]);
        y[i] = static_cast<T>(is_first ? cosine * mine - sine * its : cosine * mine + sine * its);
    }
};

}  // namespace

void rotary_embedding(node_call& in) {
    const any_tensor &x = in.input(0), &cosines = in.input(1), &sines = in.input(2);
    const lengths& shape = x.shape();
    const std::int64_t given_heads = in.integer("num_heads", 0), given_size = in.integer("rotary_embedding_dim", 0);
    const bool is_packed = shape.size() == 3;
    if (shape.size() != 3 && shape.size() != 4) in.refuse_shapes("has the input " + to_string(x));
    if (is_packed && (given_heads <= 0 || shape[2] % static_cast<std::size_t>(given_heads) != 0))
        in.refuse_shapes("divides the input " + to_string(x) + " into " + std::to_string(given_heads) + " heads");
    if (!is_packed && given_heads != 0 && given_heads != static_cast<std::int64_t>(shape[1]))
        in.refuse_shapes("has " + std::to_string(given_heads) + " heads and the input " + to_string(x));
    const std::size_t heads = is_packed ? static_cast<std::size_t>(given_heads) : shape[1];
    const std::size_t batch = shape[0], steps = is_packed ? shape[1] : shape[2];
    const std::size_t size = is_packed ? shape[2] / heads : shape[3];
    if (given_size < 0 || given_size % 2 != 0 || static_cast<std::size_t>(given_size) > size ||
        (given_size == 0 && size % 2 != 0))
        in.refuse_shapes("rotates " + std::to_string(given_size) + " elements of a head of " + std::to_string(size));
    const std::size_t rotated = given_size == 0 ? size : static_cast<std::size_t>(given_size);
    const bool has_positions = in.has_input(3);
    if (has_positions && (in.input(3).type() != io::dtype::i64 || in.input(3).shape() != lengths{batch, steps}))
        in.refuse_shapes("has the positions " + to_string(in.input(3)) + " for the input " + to_string(x));
    const std::size_t rows = cosines.shape().empty() ? 0 : cosines.shape()[0];
    const lengths expected = has_positions ? lengths{rows, rotated / 2} : lengths{batch, steps, rotated / 2};
    for (const any_tensor* const each : {&cosines, &sines}) {
        if (each->type() != x.type() || each->shape() != expected || (has_positions && rows == 0 && x.elements() != 0))
            in.refuse_shapes("has the angles " + to_string(*each) + " for the input " + to_string(x));
    }
    static const any_tensor nothing;
    const any_tensor& positions = has_positions ? in.input(3) : nothing;
    const any_tensor& y = in.make_output(0, x.type(), shape);
    if (has_positions) require_numbers(in, 3, {0, static_cast<std::int64_t>(rows) - 1}, y);
    with_float(in, x, [&]<typename T>() {
        const rotated_element<T> kernel{.x = in.read<T>(x),
                                        .cosines = in.read<T>(cosines),
                                        .sines = in.read<T>(sines),
                                        .positions = in.read<std::int64_t>(positions),
                                        .y = in.write<T>(y),
                                        .heads = heads,
                                        .steps = steps,
                                        .size = size,
                                        .rotated = rotated,
                                        .rows = rows,
                                        .is_packed = is_packed,
                                        .is_interleaved = in.integer("interleaved", 0) != 0};
        each(in, y.elements(), kernel, {&x, &cosines, &sines, &positions}, {&y});
    });
}

// --- SwiGLU ------------------------------------------------------------------------------------------------------

void gated_swish(node_call& in) {
    const any_tensor &gate = in.input(0), &x = in.input(1);
    if (!is_float(gate.type())) in.refuse_type(gate);
    if (gate.type() != x.type() || gate.shape() != x.shape())
        in.refuse_shapes("combines " + to_string(gate) + " and " + to_string(x) + ", which have to be alike");
    expression e(in);
    const auto a = e.input(gate), b = e.input(x);
    const auto open = e.apply(opcode::sigmoid, e.apply(opcode::multiply, a, e.constant(in.real("alpha", 1))));
    e.give(0, gate.type(), e.apply(opcode::multiply, e.apply(opcode::multiply, a, open), b));
    e.run();
}

}  // namespace sluice::nn::operators
