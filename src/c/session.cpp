// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/session.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/options.hpp"
#include "c/status.hpp"
#include "c/types.hpp"

using namespace sluice;
using namespace sluice::c;

struct sluice_session {
    sluice_session(std::shared_ptr<const loaded_network> from, nn::session_options options);

    const std::shared_ptr<const loaded_network> of;  // and its runtime
    nn::session made;
    std::vector<std::size_t> takes;                 // of the network's inputs
    std::vector<std::vector<std::int64_t>> shapes;  // of outputs, for buffers
    const made_here birth = {};
};

sluice_session::sluice_session(std::shared_ptr<const loaded_network> from, nn::session_options options)
    : of(std::move(from)), made(of->network, std::move(options)), shapes(of->network.outputs().size()) {
    const auto is_state = [&](const std::string& name) {
        for (const nn::state_pair& each : made.pairs())
            if (each.input == name) return true;
        return false;
    };
    for (std::size_t i = 0; i < of->network.inputs().size(); ++i)
        if (!is_state(of->network.inputs()[i].name)) takes.push_back(i);
}

namespace {

nn::session_options session_options_from(const sluice_session_options* given, std::string_view function) {
    nn::session_options made;
    if (given == nullptr) return made;
    const sluice_session_options from = read_options(given, sizeof(sluice_session_options), function);
    if (from.pair_count != 0) require(from.pairs, function, "pairs");
    require_count(from.pair_count, function, "pairs");
    for (std::size_t i = 0; i < from.pair_count; ++i) {
        made.pairs.push_back({&require(from.pairs[i].output, function, "the output of a pair"),
                              &require(from.pairs[i].input, function, "the input of a pair")});
    }
    made.shapes = shapes_from(from.shapes, from.shape_count, function);
    return made;
}

void require_below(std::size_t index, std::size_t count, std::string_view what, std::string_view function) {
    if (index < count) return;
    refuse(function,
           "there is no " + std::string(what) + " " + std::to_string(index) + "; there are " + std::to_string(count));
}

}  // namespace

sluice_status sluice_session_create(const sluice_network* network, const sluice_session_options* options,
                                    sluice_session** session) {
    return guarded([&] {
        const std::string_view here = "sluice_session_create";
        const std::shared_ptr<const loaded_network>& of = require(network, here, "network").held;
        require(session, here, "session");
        *session = new sluice_session(of, session_options_from(options, here));
    });
}

sluice_status sluice_session_input_count(const sluice_session* session, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_session_input_count";
        const std::size_t all = require(session, here, "session").takes.size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_session_input(const sluice_session* session, size_t index, size_t* input) {
    return guarded([&] {
        const std::string_view here = "sluice_session_input";
        const sluice_session& of = require(session, here, "session");
        require_below(index, of.takes.size(), "input", here);
        require(input, here, "input") = of.takes[index];
    });
}

sluice_status sluice_session_state_count(const sluice_session* session, size_t* count) {
    return guarded([&] {
        const std::string_view here = "sluice_session_state_count";
        const std::size_t all = require(session, here, "session").made.pairs().size();
        require(count, here, "count") = all;
    });
}

sluice_status sluice_session_pair(const sluice_session* session, size_t index, sluice_state_pair* pair) {
    return guarded([&] {
        const std::string_view here = "sluice_session_pair";
        const sluice_session& of = require(session, here, "session");
        require_below(index, of.made.pairs().size(), "pair", here);
        const nn::state_pair& found = of.made.pairs()[index];
        require(pair, here, "pair") = {found.output.c_str(), found.input.c_str()};
    });
}

sluice_status sluice_session_step(sluice_session* session, const sluice_tensor* inputs, size_t count) {
    return guarded([&] {
        const std::string_view here = "sluice_session_step";
        sluice_session& of = require(session, here, "session");
        if (count != 0) require(inputs, here, "inputs");
        if (count != of.takes.size()) {
            refuse(here,
                   "a step takes " + std::to_string(of.takes.size()) + " inputs, and is given " + std::to_string(count),
                   errc::shape_mismatch);
        }
        call_views views;
        if (!views.take_inputs(*of.of, of.takes, inputs, here)) {
            refuse(here, "a step takes inputs in host memory, of at most 8 dimensions", errc::unsupported);
        }
        of.made.step(views.inputs());
    });
}

sluice_status sluice_session_output(sluice_session* session, size_t index, sluice_buffer* output) {
    return guarded([&] {
        const std::string_view here = "sluice_session_output";
        sluice_session& of = require(session, here, "session");
        require(output, here, "output");
        const nn::input_view found = of.made.output(index);
        std::vector<std::int64_t>& shape = of.shapes[index];
        shape.assign(found.form().shape().begin(), found.form().shape().end());
        *output = {const_cast<std::byte*>(found.data()), shape.data(), shape.size(), type_from(found.form().type())};
    });
}

sluice_status sluice_session_state(sluice_session* session, sluice_result** state) {
    return guarded([&] {
        const std::string_view here = "sluice_session_state";
        sluice_session& of = require(session, here, "session");
        require(state, here, "state");
        nn::session_state held = of.made.state();
        std::vector<nn::any_tensor> values;
        for (const nn::state_pair& each : of.made.pairs()) values.push_back(std::move(held.at(each.input)));
        held.clear();
        *state = new sluice_result(std::move(values));
    });
}

sluice_status sluice_session_set_state(sluice_session* session, const sluice_tensor* state, size_t count) {
    return guarded([&] {
        const std::string_view here = "sluice_session_set_state";
        sluice_session& of = require(session, here, "session");
        const std::vector<nn::state_pair>& pairs = of.made.pairs();
        if (count != 0) require(state, here, "state");
        if (count != pairs.size()) {
            refuse(here,
                   "the state has " + std::to_string(pairs.size()) + " tensors, and is given " + std::to_string(count),
                   errc::shape_mismatch);
        }
        nn::session_state given;
        for (std::size_t i = 0; i < count; ++i) given.emplace(pairs[i].input, host_copy(state[i], here));
        of.made.set_state(given);
    });
}

sluice_status sluice_session_reset(sluice_session* session) {
    return guarded([&] { require(session, "sluice_session_reset", "session").made.reset(); });
}

void sluice_session_destroy(sluice_session* session) { destroy_if_here(session); }
