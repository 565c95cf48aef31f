// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM, and DynamicQuantizeLSTM of ONNX Runtime. The products with the inputs of all steps come first, as one
// product of matrices. Then each step is a kernel over [direction, batch, hidden] (two for a GRU whose reset comes
// before its product). The states of two steps are kept, and change places. On a CPU f32 is one command instead
// (recurrent_on_cpu.hpp), and so are integers whose weights a pass has packed; on a GPU f32, f16 and bf16 are one
// kernel where that can be (kernels/recurrent/recurrent_layer.hpp).
#include <algorithm>
#include <cmath>

#include "kernels/recurrent/recurrent_layer.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/launch_rows.hpp"
#include "nn/operators/number_checks.hpp"
#include "nn/operators/recurrent_activation.hpp"
#include "nn/operators/recurrent_from_zeros.hpp"
#include "nn/operators/recurrent_on_cpu.hpp"
#include "nn/operators/recurrent_steps.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/table.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// --- the operators -----------------------------------------------------------------------------------------------

const any_tensor recurrent_nothing;

const any_tensor& recurrent_input(const node_call& in, std::size_t i) {
    return in.has_input(i) ? in.input(i) : recurrent_nothing;
}

// As ONNX has the weights, [directions, gates * hidden, inner]; or integers of 8 bits, [directions, inner, gates *
// hidden].
enum class recurrent_weight_form : unsigned char { rows, integer_columns };

// The checked shapes of a node, and its products with the inputs.
struct recurrent_node {
    recurrent_node(node_call& call, std::size_t gates_of_it, std::span<const std::string_view> usual_activations,
                   recurrent_weight_form weights = recurrent_weight_form::rows)
        : in(call), gates(gates_of_it), has_integers(weights == recurrent_weight_form::integer_columns) {
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
        if (const dense_layers* const passes = in.environment().layers) views = passes->recurrent;
        const bool has_rows_first = is_batch_first || views.x_has_rows_first;
        steps = x().shape()[has_rows_first ? 1 : 0];
        batch = x().shape()[has_rows_first ? 0 : 1];
        hidden = r().shape()[has_integers ? 1 : 2];
        if (in.has("hidden_size") && in.integer("hidden_size", 0) != static_cast<std::int64_t>(hidden))
            in.refuse_shapes("has the hidden size " + std::to_string(in.integer("hidden_size", 0)) + ", and R is " +
                             to_string(r()));
        if (!is_float(x().type())) in.refuse_type(x());
        if (has_integers) {
            require_integers(1, x().shape()[2], "W");
            require_integers(2, hidden, "R");
        } else {
            require(1, {directions, gates * hidden, x().shape()[2]}, "W");
            require(2, {directions, gates * hidden, hidden}, "R");
        }
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
    // Weights, whose scale is the input 6 + 2 i, and whose zero point follows: of each direction, or of each column.
    void require_integers(std::size_t i, std::size_t inner, std::string_view name) const {
        if (!in.has_input(6 + 2 * i) || !in.has_input(7 + 2 * i))
            in.refuse("leaves out the scale or the zero point of " + std::string(name));
        const any_tensor &w = in.input(i), &scale = in.input(6 + 2 * i), &zero = in.input(7 + 2 * i);
        if (x().type() != io::dtype::f32) in.refuse_type(x());
        if (w.type() != io::dtype::i8 && w.type() != io::dtype::u8) in.refuse_type(w);
        if (scale.type() != io::dtype::f32) in.refuse_type(scale);
        if (zero.type() != w.type()) in.refuse("has a zero point of another type than its weights");
        const std::size_t columns = gates * hidden;
        const auto fits = [&](const any_tensor& of) {
            return of.elements() == directions || of.elements() == directions * columns;
        };
        if (w.shape() != lengths{directions, inner, columns} || !fits(scale) || !fits(zero))
            in.refuse_shapes("has the inputs " + to_string(w) + ", " + to_string(scale) + " and " + to_string(zero) +
                             " for " + std::string(name) + ", its scale and zero point; the weights have to be " +
                             to_string(std::span<const std::size_t>(lengths{directions, inner, columns})));
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
        const bool has_rows_first = is_batch_first || views.x_has_rows_first;
        using form = recurrent_views::form;
        const bool y_has_rows_first = is_batch_first || views.y == form::rows_steps,
                   y_is_as_the_node = !is_batch_first && views.y == form::as_the_node;
        return {.products = in.read<T>(products),
                .r = has_integers ? nullptr : in.read<T>(r()),
                .bias = in.read<T>(bias()),
                .sequence_lengths = in.read<std::int32_t>(sequence_lengths()),
                .y = in.write<T>(y),
                .batch = batch,
                .hidden = hidden,
                .gates = gates,
                .directions = directions,
                .steps = steps,
                .step = 0,
                .row_of_step = has_rows_first ? 1 : batch,
                .row_of_batch = has_rows_first ? steps : 1,
                .y_of_step = y_has_rows_first ? row : row * batch,
                .y_of_direction = y_is_as_the_node ? hidden * batch : hidden,
                .y_of_batch = y_has_rows_first   ? row * steps
                              : y_is_as_the_node ? hidden
                                                 : row,
                .reversed = reversed,
                .has_integers = has_integers};
    }

    // Whether the node was one of those that a CPU's vector units compute, and is done.
    bool runs_on_cpu(kernels::recurrent_kind kind) const {
        if (steps == 0 || !is_recurrent_on_cpu(in) || (has_integers && !in.has_input(recurrent_integers_input)))
            return false;
        run_recurrent_on_cpu(in, {{kind, directions, steps, batch, x().shape()[2], hidden},
                                  is_batch_first,
                                  reversed,
                                  has_integers,
                                  activations});
        return true;
    }

    node_call& in;
    std::size_t gates, directions = 1, steps = 0, batch = 0, hidden = 0;
    std::uint64_t reversed = 0;
    bool is_batch_first = false;
    recurrent_views views;
    bool has_integers;
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
        // recurrent_from_zeros.hpp: it has a shape only.
        if (of.in.where() == place::device && !before_.is_on_device()) before_ = {};
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
    using form = recurrent_views::form;
    const std::size_t width = of.directions * of.hidden;
    if (of.views.y == form::rows_steps) return of.in.make_output(0, of.x().type(), {of.batch, of.steps, width});
    if (of.views.y == form::steps_rows) return of.in.make_output(0, of.x().type(), {of.steps, of.batch, width});
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
    if (auto closure = kernels::recurrent_in_one_kernel(call, of.in.context().device().properties())) {
        submit(recurrent_in_clusters(*closure), none);
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

// The peepholes, and the states before the first step.
struct lstm_values {
    explicit lstm_values(const recurrent_node& of) : peepholes(recurrent_input(of.in, 7)), h(of, 5, 1), c(of, 6, 2) {}

    const any_tensor& peepholes;
    recurrent_states h, c;
};

// All steps, with kernels for each. `products_before(t)` gives the products of a step, and submits what they need.
template <typename T, typename Products>
void lstm_steps(const recurrent_node& of, const any_tensor& y, lstm_values& all, const Products& products_before) {
    const node_call& in = of.in;
    const any_tensor& r = of.has_integers ? recurrent_nothing : of.r();
    for (std::size_t t = 0; t < of.steps; ++t) {
        const any_tensor products = products_before(t);
        lstm_step<T> kernel{of.step<T>(products, y),
                            all.h.read<T>(),
                            all.c.read<T>(),
                            all.h.write<T>(t),
                            all.c.write<T>(t),
                            in.read<T>(all.peepholes),
                            in.integer("input_forget", 0) != 0,
                            {},
                            {},
                            {}};
        of.take(0, kernel.f);
        of.take(1, kernel.g);
        of.take(2, kernel.out);
        // `clip` limits the arguments of the gates. The cell state is none of them.
        for (recurrent_activation& each : kernel.out) each.clip = 0;
        kernel.all.step = t;
        each(in, of.count(), kernel,
             {&products, &r, &of.bias(), &of.sequence_lengths(), &all.peepholes, &all.h.before(), &all.c.before()},
             {&y, &all.h.after(t), &all.c.after(t)});
        all.h.advance(t);
        all.c.advance(t);
    }
}

void lstm(node_call& in) {
    static constexpr std::string_view usual[] = {"sigmoid", "tanh", "tanh"};
    const recurrent_node of(in, 4, usual);
    of.require(6, of.state_shape(), "initial_c");
    of.require(7, {of.directions, 3 * of.hidden}, "P");
    if (of.runs_on_cpu(kernels::recurrent_kind::lstm)) return;
    const any_tensor& y = recurrent_y(of);
    lstm_values all(of);
    if (of.steps == 0) {
        all.h.skip();
        return all.c.skip();
    }
    const any_tensor products = of.multiply_inputs();
    if (recurrent_on_gpu(of, kernels::recurrent_kind::lstm, products, y, all.h, &all.c)) return;
    with_float(in, of.x(), [&]<typename T>() { lstm_steps<T>(of, y, all, [&](std::size_t) { return products; }); });
}

// --- DynamicQuantizeLSTM -----------------------------------------------------------------------------------------

struct lower_number {
    SLUICE_KERNEL float operator()(float a, float b) const { return b < a ? b : a; }
};
struct higher_number {
    SLUICE_KERNEL float operator()(float a, float b) const { return b > a ? b : a; }
};

// The numbers of a group as integers of 8 bits by one scale and zero point, as DynamicQuantizeLinear has them. A group
// is the inputs of all steps, up to the end of the longest sequence; or the states of a direction before a step,
// without those of sequences that had ended before the step before it. What does not count is the zero point.
struct quantized_group {
    const float* x;               // [groups, steps, batch, width]; of states there is one step
    std::uint8_t* q;              // likewise
    float* quantities;            // [groups, 2]: scale and zero point
    const std::int32_t* lengths;  // or null
    std::size_t steps, batch, width, step;
    in_word<bool> has_states;

    SLUICE_KERNEL bool counts(std::size_t position, std::size_t sequence, std::int64_t longest) const {
        if (lengths == nullptr) return true;
        if (has_states) return step == 0 || static_cast<std::int64_t>(step) <= lengths[sequence];
        return static_cast<std::int64_t>(position) < longest;
    }
    template <typename Team>
    SLUICE_KERNEL void operator()(std::size_t group, const Team& team) const {
        const std::size_t count = steps * batch * width;
        std::int64_t longest = 0;
        for (std::size_t s = 0; s < batch && lengths != nullptr && !has_states; ++s)
            longest = lengths[s] > longest ? lengths[s] : longest;
        float low = 0, high = 0, odd = 0;
        for (std::size_t i = team.rank(); i < count; i += team.size()) {
            if (!counts(i / width / batch, i / width % batch, longest)) continue;
            const float each = x[group * count + i];
            low = each < low ? each : low;
            high = each > high ? each : high;
            if (!(each - each == 0)) odd = 1;
        }
        low = team.join(low, lower_number());
        high = team.join(high, higher_number());
        odd = team.join(odd, higher_number());
        const float step_of_range = (high - low) / 255, scale = step_of_range > 0 ? step_of_range : 1;
        float zero = odd != 0 ? 0 : std::rint(-low / scale);
        zero = zero > 255 ? 255 : zero;
        for (std::size_t i = team.rank(); i < count; i += team.size()) {
            float made = zero;
            if (odd == 0 && counts(i / width / batch, i / width % batch, longest)) {
                made = std::rint(x[group * count + i] / scale) + zero;
                made = made < 0 ? 0 : made > 255 ? 255 : made;
            }
            q[group * count + i] = static_cast<std::uint8_t>(made);
        }
        if (team.rank() == 0) {
            quantities[2 * group] = odd == 0 ? scale : NAN;
            quantities[2 * group + 1] = zero;
        }
    }
};

// Weights of 8 bits, with scales and zero points of directions or columns.
template <typename W>
struct weight_columns {
    const W* weights;  // [directions, inner, columns]
    const float* scales;
    const W* zeros;
    std::size_t inner, columns;
    in_word<bool> has_column_scales, has_column_zeros;

    // A row of integers times a column.
    SLUICE_KERNEL float product(const std::uint8_t* row, float scale, float zero, std::size_t direction,
                                std::size_t column) const {
        const std::size_t at = direction * columns + column;
        const W* const from = weights + direction * inner * columns + column;
        const std::int32_t moved = zeros[has_column_zeros ? at : direction],
                           row_moved = static_cast<std::int32_t>(zero);
        std::uint32_t sum = 0;  // which may overflow, and begins again then
        for (std::size_t k = 0; k < inner; ++k)
            sum += static_cast<std::uint32_t>((row[k] - row_moved) * (from[k * columns] - moved));
        return static_cast<float>(static_cast<std::int32_t>(sum)) *
               (scale * scales[has_column_scales ? at : direction]);
    }
};

// [steps, batch, directions, columns]
template <typename W>
struct integer_input_product {
    weight_columns<W> by;
    const std::uint8_t* q;
    const float* quantities;
    float* products;
    std::size_t directions;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t row = i / by.columns / directions;
        products[i] =
            by.product(q + row * by.inner, quantities[0], quantities[1], i / by.columns % directions, i % by.columns);
    }
};

// Of a step: the products of the inputs and, if there is one, of the state. Over [directions, batch, columns].
template <typename W>
struct integer_state_product {
    recurrent_step<float> all;
    weight_columns<W> by;
    const std::uint8_t* q;  // or null
    const float* quantities;
    float* products;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t column = i % by.columns, row = i / by.columns;
        const auto at = all.place_of(row * all.hidden);
        if (at.is_over) return;
        const std::size_t from = at.position * all.row_of_step + at.batch * all.row_of_batch;
        const std::size_t place = (from * all.directions + at.direction) * by.columns + column;
        float sum = all.products[place];
        if (q != nullptr)
            sum += by.product(q + row * by.inner, quantities[2 * at.direction], quantities[2 * at.direction + 1],
                              at.direction, column);
        products[place] = sum;
    }
};

template <typename W>
weight_columns<W> columns_of(const recurrent_node& of, std::size_t input) {
    const any_tensor &w = of.in.input(input), &scale = of.in.input(6 + 2 * input), &zero = of.in.input(7 + 2 * input);
    return {of.in.read<W>(w),
            of.in.read<float>(scale),
            of.in.read<W>(zero),
            w.shape()[1],
            w.shape()[2],
            scale.elements() != of.directions,
            zero.elements() != of.directions};
}

// Numbers as integers, with their quantities.
struct quantized_numbers {
    quantized_numbers(const node_call& in, std::size_t groups, std::size_t of_group)
        : q(in.make(io::dtype::u8, {groups * of_group})), quantities(in.make(io::dtype::f32, {groups, 2})) {}

    any_tensor q, quantities;
};

// The inputs; or the states before a step.
void quantize_groups(const recurrent_node& of, const any_tensor& x, bool has_states, std::size_t step,
                     const quantized_numbers& to) {
    const std::size_t steps = has_states ? 1 : of.steps, width = x.shape()[2], count = steps * of.batch * width;
    each_row(of.in, has_states ? of.directions : 1, count, team_of(count),
             quantized_group{of.in.read<float>(x), of.in.write<std::uint8_t>(to.q), of.in.write<float>(to.quantities),
                             of.in.read<std::int32_t>(of.sequence_lengths()), steps, of.batch, width, step, has_states},
             {&x, &of.sequence_lengths()}, {&to.q, &to.quantities});
}

template <typename W, typename R>
void quantized_lstm_steps(const recurrent_node& of, const any_tensor& y, lstm_values& all) {
    const node_call& in = of.in;
    const std::size_t columns = of.gates * of.hidden, rows = of.steps * of.batch, inputs = of.x().shape()[2];
    const any_tensor products = in.make(io::dtype::f32, {rows, of.directions * columns});
    if (in.has_input(4))
        require_numbers(in, 4, number_rule({0, static_cast<std::int64_t>(of.steps)}, "length"), products);
    quantized_numbers of_x(in, 1, rows * inputs), of_h(in, of.directions, of.batch * of.hidden);
    quantize_groups(of, of.x(), false, 0, of_x);
    each(in, products.elements(),
         integer_input_product<W>{columns_of<W>(of, 1), in.read<std::uint8_t>(of_x.q), in.read<float>(of_x.quantities),
                                  in.write<float>(products), of.directions},
         {&of_x.q, &of_x.quantities, &in.input(1), &in.input(8), &in.input(9)}, {&products});
    const any_tensor whole = in.make(io::dtype::f32, products.shape());
    lstm_steps<float>(of, y, all, [&](std::size_t t) {
        const any_tensor& h = all.h.before();
        const bool has_state = static_cast<bool>(h);
        if (has_state) quantize_groups(of, h, true, t, of_h);
        integer_state_product<R> kernel{of.step<float>(products, recurrent_nothing), columns_of<R>(of, 2),
                                        has_state ? in.read<std::uint8_t>(of_h.q) : nullptr,
                                        in.read<float>(of_h.quantities), in.write<float>(whole)};
        kernel.all.step = t;
        const any_tensor& none = recurrent_nothing;
        each(in, of.directions * of.batch * columns, kernel,
             {&products, &of.bias(), &of.sequence_lengths(), has_state ? &of_h.q : &none,
              has_state ? &of_h.quantities : &none, &in.input(2), &in.input(10), &in.input(11)},
             {&whole});
        return whole;
    });
}

// The numbers are those that ONNX Runtime computes on one thread: of several, each quantizes the states of its
// sequences alone.
void dynamic_quantize_lstm(node_call& in) {
    static constexpr std::string_view usual[] = {"sigmoid", "tanh", "tanh"};
    const recurrent_node of(in, 4, usual, recurrent_weight_form::integer_columns);
    of.require(6, of.state_shape(), "initial_c");
    of.require(7, {of.directions, 3 * of.hidden}, "P");
    if (of.runs_on_cpu(kernels::recurrent_kind::lstm)) return;
    const any_tensor& y = recurrent_y(of);
    lstm_values all(of);
    if (of.steps == 0) {
        all.h.skip();
        return all.c.skip();
    }
    const bool is_w_signed = in.input(1).type() == io::dtype::i8, is_r_signed = in.input(2).type() == io::dtype::i8;
    if (is_w_signed) {
        is_r_signed ? quantized_lstm_steps<std::int8_t, std::int8_t>(of, y, all)
                    : quantized_lstm_steps<std::int8_t, std::uint8_t>(of, y, all);
    } else {
        is_r_signed ? quantized_lstm_steps<std::uint8_t, std::int8_t>(of, y, all)
                    : quantized_lstm_steps<std::uint8_t, std::uint8_t>(of, y, all);
    }
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
        {.name = "DynamicQuantizeLSTM",
         .least_inputs = 3,
         .most_inputs = 12,
         .most_outputs = 3,
         .attributes = {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
                        "input_forget"},
         .run = &dynamic_quantize_lstm,
         .domain = "com.microsoft"},
    };
    return operators;
}

const definition& recurrent_from_zeros(const definition& of) {
    static const std::vector<definition> known = [] {
        std::vector<definition> made(recurrent().begin(), recurrent().end());
        for (definition& each : made) each.shape_inputs = recurrent_state_inputs;
        return made;
    }();
    return *std::ranges::find(known, of.name, &definition::name);
}

}  // namespace sluice::nn::operators
