// SPDX-License-Identifier: Apache-2.0
// session: a network with memory, step by step. Some outputs of a step are inputs of the next one: its state.
//
//     nn::session s(speech);                                        // "h" and "c" are found by their names
//     for (const std::vector<float>& samples : sound) {
//         s.step({{samples, {1, 512}}});                            // the inputs that are no state
//         if (s.output<float>("speech")[0] > 0.5f) std::cout << "speech\n";
//     }
//     s.reset();                                                    // the next sequence
//
// The state stays in memory of the session: on a CPU in two buffers that change their roles, on a GPU on the device. It
// is zeros at first. It may grow from step to step, as the keys and values of attention do.
//
// Memory: of the state and the outputs. On a CPU what the network computes with belongs to the network, and all its
// sessions use it; on a device of one worker, a step allocates no memory from the fourth one with the same shapes on,
// where the network's own call allocates none (network::operator()). On a GPU a session whose steps come with the same
// shapes has a graph of its own, with that memory, where it takes at most kept_limit bytes: memory_bytes() counts it.
//
// Thread safety: one thread at a time; another one that steps, resets, reads or sets the state meanwhile is refused.
// Sessions of one network are independent of each other, and threads may step them at the same time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::nn {

namespace detail {
class session_core;
}

// An output that is the next step's input.
struct state_pair {
    std::string output, input;  // names: "hn", "h0"

    friend bool operator==(const state_pair&, const state_pair&) = default;
};

// The state that the names of inputs and outputs say, in the order of the inputs. Two names belong together if they
// have the same words without those that say which is which: in, input, past, prev, previous, old, init, initial and
// the 0 of "h0" of an input; out, output, present, next, new, updated and the n of "hn" and "stateN" of an output. The
// rest must name a state: state, hidden, cell, cache, memory, h, c, or past and present. docs/sessions.md has the rule
// and examples.
//
// It does not guess. Throws errc::invalid_argument, with the names, where no two belong together, where one belongs to
// several, where two that belong together have other types or shapes, and where no other input is left. Costs
// O(inputs * outputs).
std::vector<state_pair> find_state(std::span<const value_info> inputs, std::span<const value_info> outputs);

// How a session is made.
struct session_options {
    // Which outputs are the next step's inputs. Empty: find_state says.
    std::vector<state_pair> pairs = {};
    // Shapes of inputs, for lengths of the state that neither the model says nor the inputs of the first step: an empty
    // past, {"past", {1, 4, 0, 16}}.
    std::vector<input_shape> shapes = {};
};

// What a session remembers: tensors in host memory, by the names of the inputs.
using session_state = std::map<std::string, any_tensor, std::less<>>;

class session {
public:
    // Throws errc::invalid_argument for a name that the network does not have, or that comes twice, and what find_state
    // throws; errc::shape_mismatch for a pair of two types, or whose lengths differ, and for a shape that is not the
    // input's. Submits nothing.
    explicit session(network of, session_options options = {});
    session(session&&) noexcept;
    session& operator=(session&&) noexcept;
    ~session();

    const network& of() const;                       // which it steps
    const std::vector<state_pair>& pairs() const;    // its state, in the order of the network's inputs
    const std::vector<value_info>& inputs() const;   // what a step takes: the inputs that are no state
    const std::vector<value_info>& outputs() const;  // the network's, all of them

    // Computes the outputs and the next state of these inputs, before it returns: the values of inputs(), in their
    // order. Throws what network::operator() throws: errc::shape_mismatch for inputs or a state that do not fit the
    // network; errc::invalid_argument while another thread is in this session. After an error the state is what it was,
    // so the step may be tried again; the other outputs have no meaning until a step succeeds.
    void step(std::span<const input_view> inputs);
    void step(std::initializer_list<input_view> inputs) { step(std::span(inputs.begin(), inputs.size())); }

    // An output of the latest step, in memory of the session, until the next step, reset or set_state. Outputs that are
    // state can be read on a CPU; elsewhere state() brings them. Throws errc::invalid_argument for a name or a number
    // that no output has, for another type, and before the first step. Costs O(outputs).
    template <typename T>
    std::span<const T> output(std::string_view name) const {
        return elements<T>(output_named(name));
    }
    template <typename T>
    std::span<const T> output(std::size_t index) const {
        return elements<T>(index);
    }
    // The same with its type and shape, in the network's order.
    input_view output(std::size_t index) const;

    // A copy of the state. It may be kept, changed, and set in this session or another one of the same network. Waits
    // for the device. Throws errc::invalid_argument while the shape of the state is not known: before the first step,
    // where the model leaves lengths open. Costs O(bytes).
    session_state state() const;
    // Continues from this state. Throws errc::invalid_argument for a state that lacks a name or has another one, or is
    // not in host memory; errc::shape_mismatch for another type, number of dimensions or length than the model's. After
    // an error the state is what it was. Costs O(bytes).
    void set_state(const session_state& state);
    // The state is zeros again, of the shape that it had at first. Costs O(bytes).
    void reset();

    // Of the state and the outputs, in host memory and on the device. Costs O(values).
    std::size_t memory_bytes() const;

    detail::session_core& inside() const;  // for the library's own use

private:
    std::size_t output_named(std::string_view name) const;
    void require_type(std::size_t output, io::dtype wanted) const;

    template <typename T>
    std::span<const T> elements(std::size_t index) const {
        require_type(index, io::dtype_of<T>);
        const input_view found = output(index);
        return {reinterpret_cast<const T*>(found.data()), found.form().size_bytes() / sizeof(T)};
    }

    std::unique_ptr<detail::session_core> core_;  // null: it was moved from, and each function refuses
};

}  // namespace sluice::nn
