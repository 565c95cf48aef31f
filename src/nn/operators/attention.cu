// SPDX-License-Identifier: Apache-2.0
// Attention and FlexAttention: the scores of all pairs of a query and a key, their softmax, and the sums of values.
#include <cmath>

#include "nn/operators/attention_parts.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/slabs.hpp"
#include "nn/operators/table.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {
namespace {

// --- kernels -----------------------------------------------------------------------------------------------------

// The rows of Q, K or V: an address for each batch, head and position.
template <typename T>
struct attention_rows {
    T* at;
    std::size_t of_batch, of_head, of_position;

    SLUICE_KERNEL T* row(std::size_t batch, std::size_t head, std::size_t position) const {
        return at + batch * of_batch + head * of_head + position * of_position;
    }
};

struct attention_sizes {
    std::size_t heads, group, queries, keys;  // group: heads of Q for each head of K and V
};

// Which keys a query may attend to, and what is added to its scores.
struct attention_bias {
    static constexpr std::size_t rank = 4;

    const void* mask;  // or null
    in_word<bool> is_boolean;
    std::size_t strides[rank];  // 0 where it is broadcast
    std::size_t mask_keys;      // keys from here on are not attended to
    const std::int64_t* valid;  // the number of keys in each batch, or null
    in_word<bool> is_causal;
    std::int64_t before;       // keys before the first query; with `valid` they follow from it
    std::int64_t left, right;  // the sliding window; -1: no bound

    // Negative infinity for a key that is not attended to.
    template <typename T>
    SLUICE_KERNEL computed<T> of(std::size_t batch, std::size_t head, std::size_t query, std::size_t key,
                                 std::size_t queries) const {
        using number = computed<T>;
        constexpr number nothing = -static_cast<number>(INFINITY);
        std::int64_t offset = before;
        if (valid != nullptr) {
            if (static_cast<std::int64_t>(key) >= valid[batch]) return nothing;
            offset = valid[batch] - static_cast<std::int64_t>(queries);
        }
        const std::int64_t away = static_cast<std::int64_t>(query) + offset - static_cast<std::int64_t>(key);
        if (is_causal && away < 0) return nothing;
        if ((left >= 0 && away > left) || (right >= 0 && -away > right)) return nothing;
        if (mask == nullptr) return 0;
        if (key >= mask_keys) return nothing;
        const std::size_t i = batch * strides[0] + head * strides[1] + query * strides[2] + key * strides[3];
        if (is_boolean) return static_cast<const std::uint8_t*>(mask)[i] != 0 ? number(0) : nothing;
        return static_cast<number>(static_cast<const T*>(mask)[i]);
    }
};

template <typename T>
SLUICE_KERNEL computed<T> attention_dot(const T* a, const T* b, std::size_t count) {
    using number = computed<T>;
    number sums[4] = {0, 0, 0, 0};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += static_cast<number>(a[k + j]) * static_cast<number>(b[k + j]);
    for (; k < count; ++k) sums[0] += static_cast<number>(a[k]) * static_cast<number>(b[k]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename T>
struct attention_scores {
    using number = computed<T>;

    attention_rows<const T> q, k;
    attention_sizes sizes;
    attention_bias bias;
    std::size_t head_size;
    double scale, cap;        // cap 0: none
    number* scores;           // [batch, heads, queries, keys]
    T* shown;                 // the scores of a step in between, or null
    std::int64_t shown_step;  // 0: products; 1: capped ones; 2: with the bias

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t key = i % sizes.keys, query = i / sizes.keys % sizes.queries;
        const std::size_t head = i / sizes.keys / sizes.queries % sizes.heads;
        const std::size_t batch = i / sizes.keys / sizes.queries / sizes.heads;
        number score = attention_dot(q.row(batch, head, query), k.row(batch, head / sizes.group, key), head_size) *
                       static_cast<number>(scale);
        if (shown != nullptr && shown_step == 0) shown[i] = static_cast<T>(score);
        const number most = static_cast<number>(cap);
        if (most > 0) score = most * std::tanh(score / most);
        if (shown != nullptr && shown_step == 1) shown[i] = static_cast<T>(score);
        const number added = bias.of<T>(batch, head, query, key, sizes.queries);
        // Whatever the score is: not attended to.
        constexpr number nothing = -static_cast<number>(INFINITY);
        score = added == nothing ? added : score + added;
        if (shown != nullptr && shown_step == 2) shown[i] = static_cast<T>(score);
        scores[i] = score;
    }
};

// The greatest of a row, and the sum of the exponentials of the distances to it.
template <typename Number>
struct attention_row_sums {
    const Number* scores;
    Number* sums;  // two for each row
    std::size_t keys;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const Number* const row = scores + i * keys;
        constexpr Number nothing = -static_cast<Number>(INFINITY);
        constexpr Number not_a_number = static_cast<Number>(NAN);
        Number greatest = nothing;
        bool is_nan = false;
        for (std::size_t k = 0; k < keys; ++k) {
            is_nan = is_nan || sluice::detail::is_nan(row[k]);
            greatest = row[k] > greatest ? row[k] : greatest;
        }
        Number parts[4] = {0, 0, 0, 0};
        // Nothing to attend to: the probabilities are 0.
        if (greatest != nothing)
            for (std::size_t k = 0; k < keys; ++k) parts[k % 4] += std::exp(row[k] - greatest);
        sums[2 * i] = greatest;
        sums[2 * i + 1] = is_nan ? not_a_number : (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
};

template <typename Number, typename T>
struct attention_probabilities {
    const Number *scores, *sums;
    T* to;
    std::size_t keys;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const Number greatest = sums[i / keys * 2], sum = sums[i / keys * 2 + 1];
        to[i] = sum == 0 ? T(0.0f) : static_cast<T>(std::exp(scores[i] - greatest) / sum);
    }
};

template <typename T>
struct attention_values {
    const T* probabilities;
    attention_rows<const T> v;
    attention_rows<T> y;
    attention_sizes sizes;
    std::size_t head_size;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t d = i % head_size, row = i / head_size;
        const std::size_t query = row % sizes.queries, head = row / sizes.queries % sizes.heads;
        const std::size_t batch = row / sizes.queries / sizes.heads;
        const T* const p = probabilities + row * sizes.keys;
        const T* const values = v.row(batch, head / sizes.group, 0) + d;
        using number = computed<T>;
        number sums[4] = {0, 0, 0, 0};
        for (std::size_t k = 0; k < sizes.keys; ++k) {
            // A key without weight counts nothing, whatever its value: padding need not be a number.
            const number weight = static_cast<number>(p[k]);
            if (weight != 0) sums[k % 4] += weight * static_cast<number>(values[k * v.of_position]);
        }
        y.row(batch, head, query)[d] = static_cast<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
};

// The cached rows, then the new ones, as [batch, heads, positions, size].
template <typename Word>
struct attention_cache {
    attention_rows<const Word> past, added;
    Word* to;
    std::size_t heads, past_positions, positions, size;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t d = i % size, position = i / size % positions, head = i / size / positions % heads;
        const std::size_t batch = i / size / positions / heads;
        to[i] = position < past_positions ? past.row(batch, head, position)[d]
                                          : added.row(batch, head, position - past_positions)[d];
    }
};

// --- their use ---------------------------------------------------------------------------------------------------

// [batch, heads, positions, size], as four dimensions or with the heads in the last of three.
struct attention_operand {
    any_tensor x;
    bool is_packed = false;
    std::size_t batch = 0, heads = 0, positions = 0, size = 0;

    attention_operand(const node_call& in, any_tensor from, std::string_view heads_attribute) : x(std::move(from)) {
        const lengths& shape = x.shape();
        const std::int64_t given = in.integer(heads_attribute, 0);
        if (shape.size() == 4) {
            batch = shape[0], heads = shape[1], positions = shape[2], size = shape[3];
            if (in.has(heads_attribute) && given != static_cast<std::int64_t>(heads))
                in.refuse_shapes("has " + std::to_string(given) + " heads and the input " + to_string(x));
        } else if (shape.size() == 3) {
            if (given <= 0 || shape[2] % static_cast<std::size_t>(given) != 0)
                in.refuse_shapes("divides the input " + to_string(x) + " into " + std::to_string(given) + " heads");
            is_packed = true;
            heads = static_cast<std::size_t>(given);
            batch = shape[0], positions = shape[1], size = shape[2] / heads;
        } else {
            in.refuse_shapes("has the input " + to_string(x) + "; it takes 3 or 4 dimensions");
        }
    }

    template <typename T>
    attention_rows<T> rows(T* at) const {
        return is_packed ? attention_rows<T>{at, positions * heads * size, size, heads * size}
                         : attention_rows<T>{at, heads * positions * size, positions * size, size};
    }
    lengths unpacked() const { return {batch, heads, positions, size}; }
};

attention_sizes checked_sizes(const node_call& in, const attention_operand& q, const attention_operand& k,
                              const attention_operand& v) {
    if (q.is_packed != k.is_packed || q.is_packed != v.is_packed || q.batch != k.batch || q.batch != v.batch ||
        q.size != k.size || k.heads != v.heads || k.positions != v.positions || k.heads == 0 ||
        q.heads % k.heads != 0) {
        in.refuse_shapes("combines the query " + to_string(q.x) + ", the key " + to_string(k.x) + " and the value " +
                         to_string(v.x) + ", which do not fit");
    }
    return {q.heads, q.heads / k.heads, q.positions, k.positions};
}

any_tensor attention_as(node_call& in, const any_tensor& x, io::dtype type) {
    if (x.type() == type) return x;
    const any_tensor made = in.make(type, x.shape());
    expression e(in);
    const auto read = e.input(x);
    e.give(made, read);
    e.run();
    return made;
}

double attention_scale(const node_call& in, std::size_t size) {
    return in.has("scale") ? in.real("scale", 1) : size == 0 ? 1 : 1 / std::sqrt(static_cast<double>(size));
}

// Refuses what is no type of floating point.
void check_precision(const node_call& in) {
    const std::int64_t number = in.integer("softmax_precision", 1);
    if (number != 1 && number != 10 && number != 11 && number != 16)
        in.refuse("has the softmax precision " + std::to_string(number));
}

// scores: float, or double for double. The probabilities are of `type`.
any_tensor attention_softmax(node_call& in, const any_tensor& scores, io::dtype type) {
    const std::size_t keys = scores.shape().back(), rows = keys == 0 ? 0 : scores.elements() / keys;
    const any_tensor sums = in.make(scores.type(), {rows, 2}), made = in.make(type, scores.shape());
    with_float(in, made, [&]<typename T>() {
        using number = computed<T>;
        each(in, rows, attention_row_sums<number>{in.read<number>(scores), in.write<number>(sums), keys}, {&scores},
             {&sums});
        each(
            in, made.elements(),
            attention_probabilities<number, T>{in.read<number>(scores), in.read<number>(sums), in.write<T>(made), keys},
            {&scores, &sums}, {&made});
    });
    return made;
}

void give_attention(node_call& in, const any_tensor& probabilities, const attention_operand& q,
                    const attention_operand& v, const attention_sizes& sizes) {
    attention_operand y = q;
    y.size = v.size;
    const any_tensor& made =
        in.make_output(0, q.x.type(), q.is_packed ? lengths{q.batch, q.positions, q.heads * v.size} : y.unpacked());
    const any_tensor values = attention_as(in, v.x, q.x.type());
    with_float(in, made, [&]<typename T>() {
        each(in, made.elements(),
             attention_values<T>{in.read<T>(probabilities), v.rows(in.read<T>(values)), y.rows(in.write<T>(made)),
                                 sizes, v.size},
             {&probabilities, &values}, {&made});
    });
}

any_tensor attention_product(node_call& in, const attention_operand& q, const attention_operand& k,
                             const attention_sizes& sizes, const attention_bias& bias, const any_tensor& mask,
                             const any_tensor& valid, double cap, const any_tensor& shown, int shown_step) {
    const io::dtype type = q.x.type() == io::dtype::f64 ? io::dtype::f64 : io::dtype::f32;
    const any_tensor scores = in.make(type, {q.batch, q.heads, q.positions, sizes.keys});
    if (valid) require_numbers(in, 6, number_rule({0, static_cast<std::int64_t>(sizes.keys)}, "length"), scores);
    with_float(in, q.x, [&]<typename T>() {
        const attention_scores<T> kernel{.q = q.rows(in.read<T>(q.x)),
                                         .k = k.rows(in.read<T>(k.x)),
                                         .sizes = sizes,
                                         .bias = bias,
                                         .head_size = q.size,
                                         .scale = attention_scale(in, q.size),
                                         .cap = cap,
                                         .scores = in.write<computed<T>>(scores),
                                         .shown = in.write<T>(shown),
                                         .shown_step = shown_step};
        each(in, scores.elements(), kernel, {&q.x, &k.x, &mask, &valid}, {&scores, &shown});
    });
    return scores;
}

// --- Attention ---------------------------------------------------------------------------------------------------

// The keys or values with those of the cache before them, if there is one: as the output, if it is wanted.
attention_operand with_cache(node_call& in, const attention_operand& added, std::size_t past_input,
                             std::size_t output) {
    const bool is_wanted = in.wants_output(output);
    if (!in.has_input(past_input) && !is_wanted) return added;
    if (!in.has_input(past_input) && !added.is_packed) {
        in.set_output(output, added.x);
        return added;
    }
    std::size_t past_positions = 0;
    any_tensor past;
    if (in.has_input(past_input)) {
        past = in.input(past_input);
        lengths expected = added.unpacked();
        if (past.shape().size() == 4) past_positions = expected[2] = past.shape()[2];
        if (past.type() != added.x.type() || past.shape() != expected)
            in.refuse_shapes("has the cache " + to_string(past) + " for " + to_string(added.x));
    }
    attention_operand made = added;
    made.is_packed = false;
    made.positions += past_positions;
    made.x =
        is_wanted ? in.make_output(output, added.x.type(), made.unpacked()) : in.make(added.x.type(), made.unpacked());
    with_word(added.x.type(), [&]<typename Word>() {
        const attention_cache<Word> kernel{.past = {in.read<Word>(past), added.heads * past_positions * added.size,
                                                    past_positions * added.size, added.size},
                                           .added = added.rows(in.read<Word>(added.x)),
                                           .to = in.write<Word>(made.x),
                                           .heads = added.heads,
                                           .past_positions = past_positions,
                                           .positions = made.positions,
                                           .size = added.size};
        each(in, made.x.elements(), kernel, {&past, &added.x}, {&made.x});
    });
    return made;
}

attention_bias checked_bias(const node_call& in, const attention_operand& q, const attention_sizes& sizes,
                            std::size_t past_positions) {
    attention_bias bias{};
    bias.is_causal = in.integer("is_causal", 0) != 0;
    bias.before = static_cast<std::int64_t>(past_positions);
    bias.left = in.integer("left_window_size", -1);
    bias.right = in.integer("right_window_size", -1);
    if (bias.left < -1 || bias.right < -1) in.refuse("has a window of a negative size");
    if (in.has_input(6)) {
        if (in.has_input(4)) in.refuse("has both a cache and numbers of valid keys");
        if (in.input(6).type() != io::dtype::i64) in.refuse_type(in.input(6));
        if (in.input(6).elements() != q.batch)
            in.refuse_shapes("has the numbers of valid keys " + to_string(in.input(6)) + " for a batch of " +
                             std::to_string(q.batch));
        bias.valid = in.read<std::int64_t>(in.input(6));
    }
    if (!in.has_input(3)) return bias;
    const any_tensor& mask = in.input(3);
    const lengths full = {q.batch, q.heads, q.positions, sizes.keys};
    const auto refuse_mask = [&] {
        in.refuse_shapes("has the mask " + to_string(mask) + " for scores of the shape " + to_string(std::span(full)));
    };
    bias.is_boolean = mask.type() == io::dtype::boolean;
    if (!bias.is_boolean && mask.type() != q.x.type()) in.refuse_type(mask);
    bias.mask = in.read<std::byte>(mask);
    const std::size_t rank = mask.shape().size();
    if (rank == 0 || rank > attention_bias::rank) refuse_mask();
    const lengths strides = strides_of(mask.shape());
    for (std::size_t i = 0; i < rank; ++i) {
        const std::size_t length = mask.shape()[rank - 1 - i], at = attention_bias::rank - 1 - i;
        const bool is_last = i == 0;
        if (length != full[at] && length != 1 && (!is_last || length > full[at])) refuse_mask();
        // Version 23 broadcasts a last dimension of 1; later ones fill any that is too short.
        const bool is_broadcast = length == 1 && full[at] != 1 && (!is_last || in.opset() < 24);
        bias.strides[at] = is_broadcast ? 0 : strides[rank - 1 - i];
        if (is_last) bias.mask_keys = is_broadcast ? sizes.keys : length;
    }
    return bias;
}

void softmax_attention(node_call& in) {
    if (!is_float(in.input(0).type())) in.refuse_type(in.input(0));
    if (!is_float(in.input(2).type())) in.refuse_type(in.input(2));
    if (in.input(1).type() != in.input(0).type())
        in.refuse("combines the query " + to_string(in.input(0)) + " and the key " + to_string(in.input(1)));
    if (in.has_input(4) != in.has_input(5)) in.refuse("has a cache for keys or for values, and not for both");
    check_precision(in);
    const attention_operand q(in, in.input(0), "q_num_heads");
    const attention_operand added_k(in, in.input(1), "kv_num_heads"), added_v(in, in.input(2), "kv_num_heads");
    checked_sizes(in, q, added_k, added_v);
    const attention_operand past_k = with_cache(in, added_k, 4, 1), past_v = with_cache(in, added_v, 5, 2);
    if (past_k.positions != past_v.positions) in.refuse_shapes("has caches of two lengths for keys and for values");
    const attention_sizes sizes{q.heads, q.heads / past_k.heads, q.positions, past_k.positions};
    const attention_bias bias = checked_bias(in, q, sizes, past_k.positions - added_k.positions);

    const std::int64_t mode = in.integer("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) in.refuse("has the qk_matmul_output_mode " + std::to_string(mode));
    any_tensor shown;
    if (in.wants_output(3) && mode != 3)
        shown = in.make_output(3, q.x.type(), {q.batch, q.heads, q.positions, sizes.keys});
    static const any_tensor nothing;
    const any_tensor& mask = in.has_input(3) ? in.input(3) : nothing;
    const any_tensor& valid = in.has_input(6) ? in.input(6) : nothing;
    const double cap = in.real("softcap", 0);
    if (!(cap >= 0)) in.refuse("has a softcap below 0");
    const any_tensor scores =
        attention_product(in, q, past_k, sizes, bias, mask, valid, cap, shown, static_cast<int>(mode));
    const any_tensor probabilities = attention_softmax(in, scores, q.x.type());
    if (in.wants_output(3) && mode == 3) in.set_output(3, probabilities);
    give_attention(in, probabilities, q, past_v, sizes);
}

// --- FlexAttention -----------------------------------------------------------------------------------------------

// The scores or probabilities as an inner graph changes them.
any_tensor modified(node_call& in, std::string_view name, const any_tensor& x) {
    const graph* const body = in.graph_attribute(name);
    if (body == nullptr) return x;
    const auto made = in.environment().run_graph(*body, {x});
    if (made.size() != 1 || !made[0] || made[0].type() != x.type() || made[0].shape() != x.shape())
        in.refuse_shapes("has a graph '" + std::string(name) + "' that does not make one tensor " + to_string(x) +
                         " of another");
    return brought_here(in, made[0]);
}

void flexible_attention(node_call& in) {
    std::vector<any_tensor> inputs;
    for (std::size_t i = 0; i < 3; ++i) {
        if (!is_float(in.input(i).type())) in.refuse_type(in.input(i));
        if (in.input(i).type() != in.input(0).type() || in.input(i).shape().size() != 4)
            in.refuse_shapes("combines " + to_string(in.input(0)) + " and " + to_string(in.input(i)) +
                             "; it takes tensors of one type with 4 dimensions");
        inputs.push_back(brought_here(in, in.input(i)));
    }
    check_precision(in);
    const bool is_double = in.input(0).type() == io::dtype::f64;
    using enum io::dtype;
    const std::int64_t number = in.integer("softmax_precision", is_double ? 11 : 1);
    const io::dtype precision = number == 1 ? f32 : number == 10 ? f16 : number == 11 ? f64 : bf16;
    const attention_operand q(in, inputs[0], "q_num_heads"), k(in, inputs[1], "kv_num_heads"),
        v(in, inputs[2], "kv_num_heads");
    const attention_sizes sizes = checked_sizes(in, q, k, v);
    attention_bias bias{};
    bias.left = bias.right = -1;
    any_tensor scores = attention_product(in, q, k, sizes, bias, {}, {}, 0, {}, 0);
    scores = modified(in, "score_mod", attention_as(in, scores, precision));
    scores = attention_as(in, scores, precision == f64 ? f64 : f32);
    const any_tensor probabilities = modified(in, "prob_mod", attention_softmax(in, scores, precision));
    give_attention(in, attention_as(in, probabilities, q.x.type()), q, v, sizes);
}

}  // namespace

std::span<const definition> attention() {
    static const std::vector<definition> operators = {
        {.name = "Attention",
         .least_inputs = 3,
         .most_inputs = 7,
         .most_outputs = 4,
         .attributes = {"is_causal", "kv_num_heads", "left_window_size", "q_num_heads", "qk_matmul_output_mode",
                        "right_window_size", "scale", "softcap", "softmax_precision"},
         .run = &softmax_attention,
         .since = 23},
        {.name = "FlexAttention",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"prob_mod", "scale", "score_mod", "softmax_precision"},
         .run = &flexible_attention,
         .domain = "ai.onnx.preview"},
        {.name = "LinearAttention",
         .least_inputs = 3,
         .most_inputs = 6,
         .most_outputs = 2,
         .attributes = {"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"},
         .run = &linear_attention,
         .since = 27},
        {.name = "RotaryEmbedding",
         .least_inputs = 3,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = {"interleaved", "num_heads", "rotary_embedding_dim"},
         .run = &rotary_embedding,
         .since = 23},
        {"SwiGLU", 2, 2, 1, {"alpha"}, &gated_swish, none, none, 28},
    };
    return operators;
}

}  // namespace sluice::nn::operators
