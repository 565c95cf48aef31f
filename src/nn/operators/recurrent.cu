// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM. The products with the inputs of all steps come first, as one product of matrices. Then each step is a
// kernel over [direction, batch, hidden] (two for a GRU whose reset comes before its product). The states of two steps
// are kept, and change places. On a CPU f32 is one command instead (recurrent_on_cpu.hpp); on
// a GPU f32, f16 and bf16 are one kernel where that can be (kernels/recurrent/recurrent_layer.hpp).
#include "kernels/recurrent/recurrent_layer.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/recurrent_activation.hpp"
#include "nn/operators/recurrent_on_cpu.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// --- the steps ---------------------------------------------------------------------------------------------------

template <typename T>
SLUICE_KERNEL computed<T> recurrent_dot(const T* a, const T* b, std::size_t count) {
    using number = computed<T>;
    number sums[4] = {0, 0, 0, 0};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += static_cast<number>(a[k + j]) * static_cast<number>(b[k + j]);
    for (; k < count; ++k) sums[0] += static_cast<number>(a[k]) * static_cast<number>(b[k]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Rows of x times rows of w.
template <typename T>
struct recurrent_product {
    const T *x, *w;
    T* y;
    std::size_t columns, inner;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        y[i] = static_cast<T>(recurrent_dot(x + i / columns * inner, w + i % columns * inner, inner));
    }
};

// A state of [directions, batch, hidden], in that order or another. A null address: all are 0.
template <typename T>
struct recurrent_state {
    T* at;
    std::size_t of_direction, of_batch;

    SLUICE_KERNEL T* row(std::size_t direction, std::size_t batch) const {
        return at + direction * of_direction + batch * of_batch;
    }
};

// What all steps have.
template <typename T>
struct recurrent_step {
    using number = computed<T>;

    const T* products;  // [steps, batch, directions, gates * hidden], or with steps and batch exchanged
    const T *r, *bias;  // [directions, gates * hidden, hidden], [directions, 2 * gates * hidden] or null
    const std::int32_t* sequence_lengths;  // or null
    T* y;
    std::size_t batch, hidden, gates, directions, steps, step;
    std::size_t row_of_step, row_of_batch;              // of products
    std::size_t y_of_step, y_of_direction, y_of_batch;  // strides
    std::uint64_t reversed;                             // bit d: direction d begins at the end

    struct place_in {
        std::size_t direction, batch, unit, position;
        bool is_over;  // the sequence ended before
    };
    SLUICE_KERNEL place_in place_of(std::size_t i) const {
        place_in at{i / hidden / batch, i / hidden % batch, i % hidden, step, false};
        std::size_t length = steps;
        if (sequence_lengths != nullptr) {
            const std::int64_t given = sequence_lengths[at.batch];
            length = given < 0 ? 0 : static_cast<std::size_t>(given) > steps ? steps : static_cast<std::size_t>(given);
        }
        at.is_over = step >= length;
        if (!at.is_over && (reversed >> at.direction & 1) != 0) at.position = length - 1 - step;
        return at;
    }
    SLUICE_KERNEL number input_product(const place_in& at, std::size_t gate) const {
        const std::size_t row = at.position * row_of_step + at.batch * row_of_batch;
        return static_cast<number>(
            products[(row * directions + at.direction) * gates * hidden + gate * hidden + at.unit]);
    }
    // Of the input's product (side 0) or the state's (side 1).
    SLUICE_KERNEL number bias_of(const place_in& at, std::size_t gate, std::size_t side) const {
        if (bias == nullptr) return 0;
        return static_cast<number>(bias[((at.direction * 2 + side) * gates + gate) * hidden + at.unit]);
    }
    SLUICE_KERNEL number state_product(const place_in& at, std::size_t gate, const recurrent_state<const T>& h) const {
        if (h.at == nullptr) return 0;
        return recurrent_dot(h.row(at.direction, at.batch),
                             r + ((at.direction * gates + gate) * hidden + at.unit) * hidden, hidden);
    }
    // The argument of a gate's activation.
    SLUICE_KERNEL number sum(const place_in& at, std::size_t gate, const recurrent_state<const T>& h) const {
        return input_product(at, gate) + state_product(at, gate, h) + bias_of(at, gate, 0) + bias_of(at, gate, 1);
    }
    SLUICE_KERNEL static number value_of(const recurrent_state<const T>& state, const place_in& at) {
        return state.at != nullptr ? static_cast<number>(state.row(at.direction, at.batch)[at.unit]) : number(0);
    }
    SLUICE_KERNEL void give(const place_in& at, T value, const recurrent_state<T>& next) const {
        next.row(at.direction, at.batch)[at.unit] = value;
        if (y != nullptr) y[y_index(at)] = value;
    }
    // The output is 0 there, and the state stays.
    SLUICE_KERNEL void stay(const place_in& at, const recurrent_state<const T>& from,
                            const recurrent_state<T>& to) const {
        to.row(at.direction, at.batch)[at.unit] = static_cast<T>(value_of(from, at));
    }
    SLUICE_KERNEL void give_nothing(const place_in& at) const {
        if (y != nullptr) y[y_index(at)] = T(0.0f);
    }
    SLUICE_KERNEL std::size_t y_index(const place_in& at) const {
        return at.position * y_of_step + at.direction * y_of_direction + at.batch * y_of_batch + at.unit;
    }
};

template <typename T>
struct rnn_step {
    recurrent_step<T> all;
    recurrent_state<const T> h;
    recurrent_state<T> next_h;
    recurrent_activation f[2];  // of each direction

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            return all.give_nothing(at);
        }
        all.give(at, static_cast<T>(f[at.direction](all.sum(at, 0, h))), next_h);
    }
};

// The gates of a GRU: update, reset, hidden.
template <typename T>
struct gru_step {
    recurrent_step<T> all;
    recurrent_state<const T> h, reset_h;  // reset_h: the state times the reset gate, where that comes first
    recurrent_state<T> next_h;
    const T* update;  // the update gate, where it is known
    recurrent_activation f[2], g[2];

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            return all.give_nothing(at);
        }
        using number = computed<T>;
        number z, hidden;
        if (update != nullptr) {
            z = static_cast<number>(update[i]);
            hidden = g[at.direction](all.sum(at, 2, reset_h));
        } else {
            z = f[at.direction](all.sum(at, 0, h));
            const number reset = f[at.direction](all.sum(at, 1, h));
            hidden = g[at.direction](all.input_product(at, 2) + all.bias_of(at, 2, 0) +
                                     reset * (all.state_product(at, 2, h) + all.bias_of(at, 2, 1)));
        }
        all.give(at, static_cast<T>((1 - z) * hidden + z * all.value_of(h, at)), next_h);
    }
};

template <typename T>
struct gru_gates {
    recurrent_step<T> all;
    recurrent_state<const T> h;
    T *reset_h, *update;
    recurrent_activation f[2];

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        using number = computed<T>;
        const number z = at.is_over ? number(0) : f[at.direction](all.sum(at, 0, h));
        const number reset = at.is_over ? number(0) : f[at.direction](all.sum(at, 1, h));
        update[i] = static_cast<T>(z);
        reset_h[i] = static_cast<T>(reset * all.value_of(h, at));
    }
};

// The gates of an LSTM: input, output, forget, cell.
template <typename T>
struct lstm_step {
    recurrent_step<T> all;
    recurrent_state<const T> h, c;
    recurrent_state<T> next_h, next_c;
    const T* peepholes;        // of input, output, forget; or null
    in_word<bool> is_coupled;  // the forget gate is 1 less the input gate
    recurrent_activation f[2], g[2], out[2];

    SLUICE_KERNEL computed<T> peephole(const typename recurrent_step<T>::place_in& at, std::size_t gate) const {
        if (peepholes == nullptr) return 0;
        return static_cast<computed<T>>(peepholes[(at.direction * 3 + gate) * all.hidden + at.unit]);
    }
    SLUICE_KERNEL void operator()(std::size_t i) const {
        const auto at = all.place_of(i);
        if (at.is_over) {
            all.stay(at, h, next_h);
            all.stay(at, c, next_c);
            return all.give_nothing(at);
        }
        using number = computed<T>;
        const number before = all.value_of(c, at);
        const number input = f[at.direction](all.sum(at, 0, h) + peephole(at, 0) * before);
        const number forget = is_coupled ? 1 - input : f[at.direction](all.sum(at, 2, h) + peephole(at, 2) * before);
        const number cell = forget * before + input * g[at.direction](all.sum(at, 3, h));
        const number output = f[at.direction](all.sum(at, 1, h) + peephole(at, 1) * cell);
        next_c.row(at.direction, at.batch)[at.unit] = static_cast<T>(cell);
        all.give(at, static_cast<T>(output * out[at.direction](cell)), next_h);
    }
};

// --- the operators -----------------------------------------------------------------------------------------------

const any_tensor recurrent_nothing;

const any_tensor& recurrent_input(const node_call& in, std::size_t i) {
    return in.has_input(i) ? in.input(i) : recurrent_nothing;
}

// The checked shapes of a node, and its products with the inputs.
struct recurrent_node {
    recurrent_node(node_call& call, std::size_t gates_of_it, std::span<const std::string_view> usual_activations)
        : in(call), gates(gates_of_it) {
        if (x().shape().size() != 3 || r().shape().size() != 3)
            in.refuse_shapes("has the inputs " + to_string(x()) + " and " + to_string(r()) + " for X and R");
        const std::string direction = in.text("direction", "forward");
        if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
            in.refuse("has the direction '" + direction + "'");
        directions = direction == "bidirectional" ? 2 : 1;
        reversed = direction == "bidirectional" ? 2 : direction == "reverse" ? 1 : 0;
        const std::int64_t layout = in.integer("layout", 0);
        if (layout != 0 && layout != 1) in.refuse("has the layout " + std::to_string(layout));
        is_batch_first = layout == 1;
        steps = x().shape()[is_batch_first ? 1 : 0];
        batch = x().shape()[is_batch_first ? 0 : 1];
        hidden = r().shape()[2];
        if (in.has("hidden_size") && in.integer("hidden_size", 0) != static_cast<std::int64_t>(hidden))
            in.refuse_shapes("has the hidden size " + std::to_string(in.integer("hidden_size", 0)) + ", and R is " +
                             to_string(r()));
        if (!is_float(x().type())) in.refuse_type(x());
        require(1, {directions, gates * hidden, x().shape()[2]}, "W");
        require(2, {directions, gates * hidden, hidden}, "R");
        require(3, {directions, 2 * gates * hidden}, "B");
        if (in.has_input(4)) {
            if (in.input(4).type() != io::dtype::i32) in.refuse_type(in.input(4));
            if (in.input(4).shape() != lengths{batch})
                in.refuse_shapes("has the sequence lengths " + to_string(in.input(4)) + " for a batch of " +
                                 std::to_string(batch));
        }
        require(5, state_shape(), "initial_h");
        activations = recurrent_activations(in, directions, usual_activations);
    }

    const any_tensor& x() const { return in.input(0); }
    const any_tensor& r() const { return in.input(2); }
    const any_tensor& bias() const { return recurrent_input(in, 3); }
    const any_tensor& sequence_lengths() const { return recurrent_input(in, 4); }
    std::size_t count() const { return directions * batch * hidden; }
    bool is_on_gpu() const { return operators::is_on_gpu(in); }

    // Products of 16-bit elements: gemm has them on a GPU of compute capability 8.0 or higher.
    bool is_by_typed_gemm() const {
        return is_on_gpu() && x().type() != io::dtype::f64 &&
               in.context().device().properties().compute_capability >= 80;
    }

    void require(std::size_t input, const lengths& shape, std::string_view name) const {
        if (!in.has_input(input)) return;
        if (in.input(input).type() != x().type() || in.input(input).shape() != shape)
            in.refuse_shapes("has the input " + to_string(in.input(input)) + " for " + std::string(name) +
                             "; it has to be " + std::string(io::to_string(x().type())) + " " +
                             to_string(std::span(shape)));
    }
    lengths state_shape() const {
        return is_batch_first ? lengths{batch, directions, hidden} : lengths{directions, batch, hidden};
    }
    // Of inputs and outputs.
    template <typename T>
    recurrent_state<T> state(T* at) const {
        return is_batch_first ? recurrent_state<T>{at, hidden, directions * hidden}
                              : recurrent_state<T>{at, batch * hidden, hidden};
    }
    // The activation of this number, for both directions.
    void take(std::size_t number, recurrent_activation (&to)[2]) const {
        const std::size_t each = activations.size() / directions;
        for (std::size_t d = 0; d < directions; ++d) to[d] = activations[d * each + number];
    }

    // x times w: [steps, batch] or [batch, steps], then [directions, gates * hidden].
    any_tensor multiply_inputs() const {
        const std::size_t rows = steps * batch, columns = directions * gates * hidden, inner = x().shape()[2];
        any_tensor made = in.make(x().type(), {rows, columns});
        if (in.has_input(4)) require_numbers(in, 4, number_rule({0, static_cast<std::int64_t>(steps)}, "length"), made);
        const bool is_by_gemm = in.where() == place::device && made.elements() != 0 && inner != 0 &&
                                (x().type() == io::dtype::f32 || is_by_typed_gemm());
        with_float(in, x(), [&]<typename T>() {
            if constexpr (sluice::detail::gemm_element<T>) {
                if (is_by_gemm) {
                    const auto matrix = [](const any_tensor& of, std::size_t height, std::size_t width) {
                        return tensor<T>(buffer<T>(of.shared_memory(), of.elements()), shape{height, width});
                    };
                    tensor<T> product = matrix(made, rows, columns);
                    return gemm(in.context().stream(), matrix(x(), rows, inner), matrix(in.input(1), columns, inner),
                                nullptr, product, {.transpose_b = true});
                }
            }
            each(in, made.elements(),
                 recurrent_product<T>{in.read<T>(x()), in.read<T>(in.input(1)), in.write<T>(made), columns, inner},
                 {&x(), &in.input(1)}, {&made});
        });
        return made;
    }

    template <typename T>
    recurrent_step<T> step(const any_tensor& products, const any_tensor& y) const {
        const std::size_t row = directions * hidden;
        return {.products = in.read<T>(products),
                .r = in.read<T>(r()),
                .bias = in.read<T>(bias()),
                .sequence_lengths = in.read<std::int32_t>(sequence_lengths()),
                .y = in.write<T>(y),
                .batch = batch,
                .hidden = hidden,
                .gates = gates,
                .directions = directions,
                .steps = steps,
                .step = 0,
                .row_of_step = is_batch_first ? 1 : batch,
                .row_of_batch = is_batch_first ? steps : 1,
                .y_of_step = is_batch_first ? row : row * batch,
                .y_of_direction = is_batch_first ? hidden : hidden * batch,
                .y_of_batch = is_batch_first ? row * steps : hidden,
                .reversed = reversed};
    }

    // Whether the node was one of those that a CPU's vector units compute, and is done.
    bool runs_on_cpu(kernels::recurrent_kind kind) const {
        if (steps == 0 || !is_recurrent_on_cpu(in)) return false;
        run_recurrent_on_cpu(
            in, {{kind, directions, steps, batch, x().shape()[2], hidden}, is_batch_first, reversed, activations});
        return true;
    }

    node_call& in;
    std::size_t gates, directions = 1, steps = 0, batch = 0, hidden = 0;
    std::uint64_t reversed = 0;
    bool is_batch_first = false;
    std::vector<recurrent_activation> activations;
};

template <typename T>
struct recurrent_zeros {
    T* at;
    SLUICE_KERNEL void operator()(std::size_t i) const { at[i] = T(0.0f); }
};

// The states before and after each step: at first the input, at last the output.
class recurrent_states {
public:
    recurrent_states(const recurrent_node& of, std::size_t input, std::size_t output) : of_(of) {
        before_ = recurrent_input(of.in, input);
        // One that is not wanted is needed all the same.
        last_ = output < of.in.output_count() ? of.in.make_output(output, of.x().type(), of.state_shape())
                                              : of.in.make(of.x().type(), of.state_shape());
        for (any_tensor& each : between_)
            each = of.steps > 1 ? of.in.make(of.x().type(), of.state_shape()) : any_tensor();
    }

    const any_tensor& before() const { return before_; }
    const any_tensor& after(std::size_t step) const { return step + 1 == of_.steps ? last_ : between_[step % 2]; }
    void advance(std::size_t step) { before_ = after(step); }
    template <typename T>
    recurrent_state<const T> read() const {
        return of_.state(of_.in.read<T>(before_));
    }
    template <typename T>
    recurrent_state<T> write(std::size_t step) const {
        return of_.state(of_.in.write<T>(after(step)));
    }
    // Without steps the output is the input.
    void skip() const {
        if (before_) return of_.in.copy(before_, last_);
        with_float(of_.in, last_, [&]<typename T>() {
            each(of_.in, last_.elements(), recurrent_zeros<T>{of_.in.write<T>(last_)}, {}, {&last_});
        });
    }

private:
    const recurrent_node& of_;
    any_tensor before_, last_, between_[2];
};

// Makes Y where it is wanted.
const any_tensor& recurrent_y(const recurrent_node& of) {
    if (!of.in.wants_output(0)) return recurrent_nothing;
    return of.in.make_output(0, of.x().type(),
                             of.is_batch_first ? lengths{of.batch, of.steps, of.directions, of.hidden}
                                               : lengths{of.steps, of.directions, of.batch, of.hidden});
}

// --- on a GPU ----------------------------------------------------------------------------------------------------

// What kernels/recurrent needs to know. `c`: of an LSTM.
kernels::recurrent_layer recurrent_layer_of(const recurrent_node& of, kernels::recurrent_kind kind,
                                            const any_tensor& products, const any_tensor& y, const recurrent_states& h,
                                            const recurrent_states* c) {
    using element = kernels::recurrent_element;
    const io::dtype type = of.x().type();
    const recurrent_step<std::byte> all = of.step<std::byte>(products, y);
    const auto address = [&](const any_tensor& tensor) { return of.in.read<void>(tensor); };
    const auto target = [&](const any_tensor& tensor) { return of.in.write<void>(tensor); };
    const recurrent_state<std::byte> strides = of.state<std::byte>(nullptr);
    kernels::recurrent_layer made{.kind = kind,
                                  .type = type == io::dtype::f16    ? element::f16
                                          : type == io::dtype::bf16 ? element::bf16
                                                                    : element::f32,
                                  .products = address(products),
                                  .r = address(of.r()),
                                  .bias = address(of.bias()),
                                  .peepholes = c != nullptr ? address(recurrent_input(of.in, 7)) : nullptr,
                                  .sequence_lengths = all.sequence_lengths,
                                  .first_h = address(h.before()),
                                  .first_c = c != nullptr ? address(c->before()) : nullptr,
                                  .y = target(y),
                                  .last_h = target(h.after(of.steps - 1)),
                                  .last_c = c != nullptr ? target(c->after(of.steps - 1)) : nullptr,
                                  .batch = of.batch,
                                  .hidden = of.hidden,
                                  .directions = of.directions,
                                  .steps = of.steps,
                                  .row_of_step = all.row_of_step,
                                  .row_of_batch = all.row_of_batch,
                                  .y_of_step = all.y_of_step,
                                  .y_of_direction = all.y_of_direction,
                                  .y_of_batch = all.y_of_batch,
                                  .state_of_direction = strides.of_direction,
                                  .state_of_batch = strides.of_batch,
                                  .reversed = of.reversed,
                                  .is_coupled = c != nullptr && of.in.integer("input_forget", 0) != 0 ? 1U : 0U,
                                  .f = {},
                                  .g = {},
                                  .out = {}};
    of.take(0, made.f);
    if (kind != kernels::recurrent_kind::rnn) of.take(1, made.g);
    if (c != nullptr) of.take(2, made.out);
    for (recurrent_activation& each : made.out) each.clip = 0;  // it limits the arguments of gates
    return made;
}

// All steps on a GPU, in one kernel or in one for each. False elsewhere and for f64: nothing is done.
bool recurrent_on_gpu(const recurrent_node& of, kernels::recurrent_kind kind, const any_tensor& products,
                      const any_tensor& y, const recurrent_states& h, const recurrent_states* c = nullptr) {
    if (!of.is_on_gpu() || of.x().type() == io::dtype::f64 || of.count() == 0) return false;
    const kernels::recurrent_layer call = recurrent_layer_of(of, kind, products, y, h, c);
    const any_tensor& none = recurrent_nothing;
    const auto submit = [&](launch_command command, const any_tensor& states) {
        detail::submit(of.in, command,
                       {&products, &of.r(), &of.bias(), &of.sequence_lengths(), &h.before(),
                        c != nullptr ? &c->before() : &none, c != nullptr ? &recurrent_input(of.in, 7) : &none},
                       {&y, &h.after(of.steps - 1), c != nullptr ? &c->after(of.steps - 1) : &none, &states});
    };
    if (const auto by = kernels::divide_into_clusters(call, of.in.context().device().properties())) {
        kernels::recurrent_clusters closure{call, *by};
        submit(recurrent_in_clusters(closure), none);
        return true;
    }
    kernels::recurrent_steps closure = kernels::divide_into_steps(call);
    const any_tensor states = of.in.make(io::dtype::f32, {kernels::floats_of_steps(closure)});
    closure.states = of.in.write<float>(states);
    submit(recurrent_first_states(closure), states);
    for (closure.step = 0; closure.step < of.steps; ++closure.step) {
        for (std::size_t pass = 0; pass < kernels::passes_of(kind); ++pass)
            submit(recurrent_step_by_warps(closure, pass), states);
    }
    return true;
}

// --- the nodes ---------------------------------------------------------------------------------------------------

void rnn(node_call& in) {
    static constexpr std::string_view usual[] = {"tanh"};
    const recurrent_node of(in, 1, usual);
    if (of.runs_on_cpu(kernels::recurrent_kind::rnn)) return;
    const any_tensor& y = recurrent_y(of);
    recurrent_states h(of, 5, 1);
    if (of.steps == 0) return h.skip();
    const any_tensor products = of.multiply_inputs();
    if (recurrent_on_gpu(of, kernels::recurrent_kind::rnn, products, y, h)) return;
    with_float(in, of.x(), [&]<typename T>() {
        rnn_step<T> kernel{of.step<T>(products, y), {}, {}, {}};
        of.take(0, kernel.f);
        for (std::size_t t = 0; t < of.steps; ++t) {
            kernel.all.step = t;
            kernel.h = h.read<T>();
            kernel.next_h = h.write<T>(t);
            each(in, of.count(), kernel, {&products, &of.r(), &of.bias(), &of.sequence_lengths(), &h.before()},
                 {&y, &h.after(t)});
            h.advance(t);
        }
    });
}

void gru(node_call& in) {
    static constexpr std::string_view usual[] = {"sigmoid", "tanh"};
    const recurrent_node of(in, 3, usual);
    const bool is_linear_first = in.integer("linear_before_reset", 0) != 0;
    const auto kind =
        is_linear_first ? kernels::recurrent_kind::gru_reset_last : kernels::recurrent_kind::gru_reset_first;
    if (of.runs_on_cpu(kind)) return;
    const any_tensor& y = recurrent_y(of);
    recurrent_states h(of, 5, 1);
    if (of.steps == 0) return h.skip();
    const any_tensor products = of.multiply_inputs();
    if (recurrent_on_gpu(of, kind, products, y, h)) return;
    any_tensor reset_h, update;
    if (!is_linear_first) {
        reset_h = in.make(of.x().type(), {of.directions, of.batch, of.hidden});
        update = in.make(of.x().type(), {of.directions, of.batch, of.hidden});
    }
    with_float(in, of.x(), [&]<typename T>() {
        gru_gates<T> gates{of.step<T>(products, y), {}, in.write<T>(reset_h), in.write<T>(update), {}};
        gru_step<T> kernel{gates.all, {}, {}, {}, in.read<T>(update), {}, {}};
        gates.all.y = nullptr;  // of another command: an address that a graph could not set
        kernel.reset_h = {in.read<T>(reset_h), of.batch * of.hidden, of.hidden};
        of.take(0, gates.f);
        of.take(0, kernel.f);
        of.take(1, kernel.g);
        for (std::size_t t = 0; t < of.steps; ++t) {
            gates.all.step = kernel.all.step = t;
            gates.h = kernel.h = h.read<T>();
            kernel.next_h = h.write<T>(t);
            if (!is_linear_first) {
                each(in, of.count(), gates, {&products, &of.r(), &of.bias(), &of.sequence_lengths(), &h.before()},
                     {&reset_h, &update});
            }
            each(in, of.count(), kernel,
                 {&products, &of.r(), &of.bias(), &of.sequence_lengths(), &h.before(), &reset_h, &update},
                 {&y, &h.after(t)});
            h.advance(t);
        }
    });
}

void lstm(node_call& in) {
    static constexpr std::string_view usual[] = {"sigmoid", "tanh", "tanh"};
    const recurrent_node of(in, 4, usual);
    of.require(6, of.state_shape(), "initial_c");
    of.require(7, {of.directions, 3 * of.hidden}, "P");
    if (of.runs_on_cpu(kernels::recurrent_kind::lstm)) return;
    const any_tensor& y = recurrent_y(of);
    const any_tensor& peepholes = recurrent_input(in, 7);
    recurrent_states h(of, 5, 1), c(of, 6, 2);
    if (of.steps == 0) {
        h.skip();
        return c.skip();
    }
    const any_tensor products = of.multiply_inputs();
    if (recurrent_on_gpu(of, kernels::recurrent_kind::lstm, products, y, h, &c)) return;
    with_float(in, of.x(), [&]<typename T>() {
        lstm_step<T> kernel{of.step<T>(products, y),
                            {},
                            {},
                            {},
                            {},
                            in.read<T>(peepholes),
                            in.integer("input_forget", 0) != 0,
                            {},
                            {},
                            {}};
        of.take(0, kernel.f);
        of.take(1, kernel.g);
        of.take(2, kernel.out);
        // `clip` limits the arguments of the gates. The cell state is none of them.
        for (recurrent_activation& each : kernel.out) each.clip = 0;
        for (std::size_t t = 0; t < of.steps; ++t) {
            kernel.all.step = t;
            kernel.h = h.read<T>();
            kernel.c = c.read<T>();
            kernel.next_h = h.write<T>(t);
            kernel.next_c = c.write<T>(t);
            each(in, of.count(), kernel,
                 {&products, &of.r(), &of.bias(), &of.sequence_lengths(), &peepholes, &h.before(), &c.before()},
                 {&y, &h.after(t), &c.after(t)});
            h.advance(t);
            c.advance(t);
        }
    });
}

}  // namespace

std::span<const definition> recurrent() {
    static const std::vector<definition> operators = {
        {.name = "RNN",
         .least_inputs = 3,
         .most_inputs = 6,
         .most_outputs = 2,
         .attributes = {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                        "layout"},
         .run = &rnn,
         .since = 7},
        {.name = "GRU",
         .least_inputs = 3,
         .most_inputs = 6,
         .most_outputs = 2,
         .attributes = {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                        "layout", "linear_before_reset"},
         .run = &gru,
         .since = 7},
        {.name = "LSTM",
         .least_inputs = 3,
         .most_inputs = 8,
         .most_outputs = 3,
         .attributes = {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                        "input_forget", "layout"},
         .run = &lstm,
         .since = 7},
    };
    return operators;
}

}  // namespace sluice::nn::operators
