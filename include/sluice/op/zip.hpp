// zip: several operations as one; their outputs arrive as separate arguments, in order.
//
// The parts are independent. A part that is worth it (see branch_threshold) is submitted to a branch of the
// context, a stream of its own when the scheduling policy has one to give; the streams meet again where the
// outputs are used together, by tickets. The parts are submitted left to right on the calling thread. When
// one throws, the outputs of those before it are released in stream order.
//
//     zip(upload(x), zeros<float>({64, 64})).and_then([](auto input, auto hidden) { ... })
#pragma once

#include "sluice/op/operation.hpp"

namespace sluice {

// From how much work on a part of a zip gets a stream of its own. Handing work from one stream to another
// costs a few microseconds on a GPU, about as much as two short commands; small copies are not worth it.
inline constexpr work_estimate branch_threshold{.commands = 4, .bytes = std::size_t{4} << 20};

namespace detail {
constexpr bool is_worth_a_branch(const work_estimate& work) {
    return work.commands >= branch_threshold.commands || work.bytes >= branch_threshold.bytes;
}

// The context that an independent branch of `context` is submitted to. Owned by `context`, lives as long.
// Declared here and defined in the runtime, so that combinators need to know nothing of devices.
execution_context& branch_of(execution_context& context);
}  // namespace detail

template <operation... Parts>
class zip_operation : public operation_base<zip_operation<Parts...>> {
public:
    using output = std::tuple<output_of<Parts>...>;
    static constexpr bool is_staged = (sluice::is_staged<Parts> || ...);

    explicit zip_operation(Parts... parts) : parts_(std::move(parts)...) {}

    output submit(execution_context& context) && requires(!is_staged) {
        bool home_is_taken = false;
        return std::apply(
            [&](Parts&... part) {
                // Braces fix the order of submission: left to right.
                return output{std::move(part).submit(place(part.estimate(), context, home_is_taken))...};
            },
            parts_);
    } work_estimate estimate() const {
        return std::apply([](const Parts&... part) { return (work_estimate{} + ... + part.estimate()); }, parts_);
    }

private:
    friend struct detail::staged_access;
    // The first heavy part stays on the context's own stream, and so do all light ones.
    static execution_context& place(const work_estimate& work, execution_context& context, bool& home_is_taken) {
        if (!detail::is_worth_a_branch(work)) return context;
        return std::exchange(home_is_taken, true) ? detail::branch_of(context) : context;
    }

    std::tuple<Parts...> parts_;
};

template <typename... Parts>
auto zip(Parts... parts) {
    static_assert((operation<Parts> && ...),
                  "zip: every argument must be an operation; wrap plain values in value(...)");
    if constexpr ((operation<Parts> && ...)) return zip_operation<Parts...>(std::move(parts)...);
}

}  // namespace sluice
