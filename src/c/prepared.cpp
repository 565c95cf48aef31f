// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/prepared.hpp"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/status.hpp"
#include "c/types.hpp"

using namespace sluice;
using namespace sluice::c;

struct sluice_prepared {
    // What of an input or an output does not change.
    struct value {
        sluice_type type;
        std::vector<std::int64_t> shape;
    };

    sluice_prepared(std::shared_ptr<const loaded_network> from, nn::prepared with);

    const std::shared_ptr<const loaded_network> of;  // and its runtime
    nn::prepared made;
    std::vector<value> inputs, outputs;
    std::atomic<bool> is_running{false};
    const made_here birth = {};
};

namespace {

sluice_prepared::value value_of(const nn::detail::view_form& form) {
    return {type_from(form.type()), {form.shape().begin(), form.shape().end()}};
}

// For as long as it lives, no other thread runs the network.
class only_run {
public:
    only_run(sluice_prepared& of, std::string_view function) : of_(of) {
        if (of.is_running.exchange(true, std::memory_order_acquire))
            refuse(function, "another thread runs this object: each thread prepares its own");
    }
    only_run(const only_run&) = delete;  // the flag is given back once
    only_run& operator=(const only_run&) = delete;
    ~only_run() { of_.is_running.store(false, std::memory_order_release); }

private:
    sluice_prepared& of_;
};

void describe(const std::vector<sluice_prepared::value>& all, std::size_t index, const void* data, sluice_buffer& to) {
    to = {const_cast<void*>(data), all[index].shape.data(), all[index].shape.size(), all[index].type};
}

void require_index(const std::vector<sluice_prepared::value>& all, std::size_t index, std::string_view what,
                   std::string_view function) {
    if (index < all.size()) return;
    refuse(function, "there is no " + std::string(what) + " " + std::to_string(index) + "; there are " +
                         std::to_string(all.size()));
}

}  // namespace

sluice_prepared::sluice_prepared(std::shared_ptr<const loaded_network> from, nn::prepared with)
    : of(std::move(from)), made(std::move(with)) {
    for (std::size_t i = 0; i < of->inputs.size(); ++i)
        inputs.push_back(made.is_fixed(i) ? value{} : value_of(made.input(i).form()));
    for (std::size_t i = 0; i < of->outputs.size(); ++i) outputs.push_back(value_of(made.output(i).form()));
}

sluice_status sluice_prepared_create(const sluice_network* network, const sluice_input_shape* shapes, size_t count,
                                     sluice_prepared** prepared) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_create";
        const std::shared_ptr<const loaded_network>& of = require(network, here, "network").held;
        require(prepared, here, "prepared");
        const std::vector<nn::input_shape> given = shapes_from(shapes, count, here);
        *prepared = new sluice_prepared(of, of->network.prepare(given));
    });
}

sluice_status sluice_prepared_create_fixed(const sluice_network* network, const sluice_input_shape* shapes,
                                           size_t count, const sluice_fixed_input* fixed, size_t fixed_count,
                                           sluice_prepared** prepared) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_create_fixed";
        const std::shared_ptr<const loaded_network>& of = require(network, here, "network").held;
        require(prepared, here, "prepared");
        const std::vector<nn::input_shape> given = shapes_from(shapes, count, here);
        if (fixed_count != 0) require(fixed, here, "fixed");
        require_count(fixed_count, here, "fixed inputs");
        std::vector<nn::any_tensor> held;
        std::vector<nn::fixed_input> numbers;
        for (std::size_t i = 0; i < fixed_count; ++i) {
            const std::string_view name = &require(fixed[i].name, here, "name");
            held.push_back(host_copy(fixed[i].numbers, here));
            numbers.push_back({name, nn::input_view(held.back())});
        }
        *prepared = new sluice_prepared(of, of->network.prepare(given, numbers));
    });
}

sluice_status sluice_prepared_input(const sluice_prepared* prepared, size_t index, sluice_buffer* input) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_input";
        const sluice_prepared& of = require(prepared, here, "prepared");
        require(input, here, "input");
        require_index(of.inputs, index, "input", here);
        describe(of.inputs, index, of.made.input(index).data(), *input);
    });
}

sluice_status sluice_prepared_output(const sluice_prepared* prepared, size_t index, sluice_buffer* output) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_output";
        const sluice_prepared& of = require(prepared, here, "prepared");
        require(output, here, "output");
        require_index(of.outputs, index, "output", here);
        describe(of.outputs, index, of.made.output(index).data(), *output);
    });
}

sluice_status sluice_prepared_run(sluice_prepared* prepared) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_run";
        sluice_prepared& of = require(prepared, here, "prepared");
        const only_run alone(of, here);
        of.made.run();
    });
}

sluice_status sluice_prepared_memory(const sluice_prepared* prepared, size_t* bytes) {
    return guarded([&] {
        const std::string_view here = "sluice_prepared_memory";
        const std::size_t all = require(prepared, here, "prepared").made.memory_bytes();
        require(bytes, here, "bytes") = all;
    });
}

void sluice_prepared_destroy(sluice_prepared* prepared) { destroy_if_here(prepared); }
