// SPDX-License-Identifier: Apache-2.0
// prepared: a network that is ready for inputs of given shapes, with memory for one run at a time.
//
//     const nn::network digits = sync(nn::make_network(nn::load_onnx("digits.onnx")), pool);
//     nn::prepared fast = digits.prepare({{"x", {8, 64}}});
//     std::ranges::copy(pixels, fast.input<float>("x").begin());   // in place
//     fast.run();                                                  // a CPU: here and now; a GPU: one launch, one wait
//     show(fast.output<float>("y"));                               // in place, until the next run
//
// What depends on the shapes alone is done by prepare, which runs the network with zeros. Of a large batch, whose rows
// are independent, a GPU computes a piece while the next one is copied, if that took less time. run() has the rest.
//
// Real time: on a CPU device of one worker (runtime_options::cpu_workers) run() allocates no memory, takes no lock,
// makes no system call, and throws only for numbers that the network refuses; on another thread than that of prepare
// from its second run on, since a thread has scratch memory of its own. Primitives of oneDNN may allocate. With several
// workers, large commands wake threads. Where the device is traced, each run is a launch on a stream, which allocates.
//
// Thread safety: one thread at a time. Several objects of one network are independent of each other.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/nn/host_view.hpp"

namespace sluice::nn {

namespace detail {
class prepared_call;
class prepared_network;
}  // namespace detail

// The shape that an input of a network shall have.
struct input_shape {
    std::string_view name;           // of the input
    std::vector<std::size_t> shape;  // the lengths of its dimensions
};

// The numbers of an input that decide about shapes or about what is run, e.g. the rate of samples that an If compares:
//
//     const std::array<std::int64_t, 1> rate{16000};
//     nn::prepared fast = voice.prepare({{"input", {1, 576}}}, {{"sr", {rate, {}}}});
struct fixed_input {
    std::string_view name;  // of the input
    input_view numbers;     // copied: each run has these, and what depends on them alone is computed once
};

class prepared {
public:
    // Use network::prepare.
    prepared(std::shared_ptr<const detail::prepared_network> of, std::unique_ptr<detail::prepared_call> made) noexcept;
    prepared(prepared&&) noexcept;
    prepared& operator=(prepared&&) noexcept;
    ~prepared();

    // The elements of an input, for the caller to write: zeros at first. They stay where they are, and keep their
    // values until the caller changes them. Throws errc::invalid_argument for a name or a number that no input has, for
    // another type, and for a fixed_input. Costs O(inputs).
    template <typename T>
    std::span<T> input(std::string_view name) {
        return elements<T>(input(input_named(name)));
    }
    template <typename T>
    std::span<T> input(std::size_t index) {
        return elements<T>(input(index));
    }
    // The elements of an output as the latest run left them; zeros before the first one. They stay where they are, and
    // the next run writes them. Throws as input does. Costs O(outputs).
    template <typename T>
    std::span<const T> output(std::string_view name) const {
        return elements<T>(output(output_named(name)));
    }
    template <typename T>
    std::span<const T> output(std::size_t index) const {
        return elements<T>(output(index));
    }
    // The same with their types and shapes, in the model's order: an input is what the caller writes.
    output_view input(std::size_t index) const;
    bool is_fixed(std::size_t index) const;  // whether the input has numbers of its own: it is not written then
    input_view output(std::size_t index) const;

    // Computes the outputs of the inputs, before it returns. Throws what network::run and the wait for it throw: of the
    // numbers, file_error (errc::out_of_range) for an index that is out of range; errc::runtime_closed.
    void run();

    // Of its inputs, its outputs and all values in between; weights are the network's. Costs O(1).
    std::size_t memory_bytes() const noexcept;

private:
    std::size_t input_named(std::string_view name) const;
    std::size_t output_named(std::string_view name) const;
    void require_type(io::dtype has, io::dtype wanted) const;

    template <typename T>
    std::span<T> elements(const output_view& of) const {
        require_type(of.form().type(), io::dtype_of<T>);
        return {reinterpret_cast<T*>(of.data()), of.form().size_bytes() / sizeof(T)};
    }
    template <typename T>
    std::span<const T> elements(const input_view& of) const {
        require_type(of.form().type(), io::dtype_of<T>);
        return {reinterpret_cast<const T*>(of.data()), of.form().size_bytes() / sizeof(T)};
    }

    std::shared_ptr<const detail::prepared_network> of_;  // the call points to it
    std::unique_ptr<detail::prepared_call> call_;
};

}  // namespace sluice::nn
