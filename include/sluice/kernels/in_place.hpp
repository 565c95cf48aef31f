// SPDX-License-Identifier: Apache-2.0
// in_place: the operation of a plain function that changes one tensor where it is. The function takes the stream, the
// tensor, the user's source line and its parameters. A header declares both (see clamp.hpp):
//
//     namespace detail {
//     void clamp(stream on, tensor<float>& x, const source_location& location, float low, float high);
//     }
//     inline constexpr in_place<&detail::clamp> clamp;
//
// It is a function object, called in three ways:
//     clamp(on, x, 0, 6)               the plain form: submits to a stream at once; x stays the caller's
//     clamp(std::move(x), 0, 6)        an operation, which takes the tensor over and gives it back
//     op.and_then(clamp(0, 6))         the same for the output of another operation; and_then(relu) without parameters
// Each takes the caller's source line as its last argument. Each costs what the plain function costs, and moves of its
// arguments. The plain form does not block, and throws what the function
// throws; the operation throws the same where it is submitted.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/base/source_location.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

template <auto Plain>
class in_place;

template <typename Stream, typename T, typename... Parameters,
          void (*Plain)(Stream, tensor<T>&, const source_location&, Parameters...)>
class in_place<Plain> {
public:
    class operation : public operation_base<operation> {
    public:
        using output = tensor<T>;

        // Made by the call operator. Costs moves of its arguments.
        operation(tensor<T> x, std::tuple<Parameters...> parameters, const source_location& location)
            : x_(std::move(x)), parameters_(std::move(parameters)), location_(location) {}

        output submit(execution_context& context) && {
            std::apply([&](const auto&... values) { Plain(context.stream(), x_, location_, values...); }, parameters_);
            return std::move(x_);
        }
        work_estimate estimate() const { return {.commands = 1}; }

    private:
        tensor<T> x_;
        [[no_unique_address]] std::tuple<Parameters...> parameters_;
        source_location location_;
    };

    // The function with its parameters, for and_then.
    class with_parameters {
    public:
        // Made by the call operator. Costs moves of its arguments.
        with_parameters(std::tuple<Parameters...> parameters, const source_location& location)
            : parameters_(std::move(parameters)), location_(location) {}

        // The operation on x. Costs copies of the parameters.
        operation operator()(tensor<T> x) const { return operation(std::move(x), parameters_, location_); }

    private:
        std::tuple<Parameters...> parameters_;
        source_location location_;
    };

    constexpr in_place() = default;

    // The plain form, the operation, and the function for and_then. The first costs what the plain function costs, the
    // others moves of their arguments.
    void operator()(Stream on, tensor<T>& x, Parameters... parameters,
                    const source_location& location = source_location::current()) const {
        Plain(on, x, location, std::move(parameters)...);
    }
    operation operator()(tensor<T> x, Parameters... parameters,
                         const source_location& location = source_location::current()) const {
        return operation(std::move(x), {std::move(parameters)...}, location_.line() != 0 ? location_ : location);
    }
    with_parameters operator()(Parameters... parameters,
                               const source_location& location = source_location::current()) const
    requires(sizeof...(Parameters) > 0)
    {
        return with_parameters({std::move(parameters)...}, location);
    }

    // The same function, whose operations report this source line. and_then calls it with its own line. Costs
    // O(1).
    constexpr in_place called_from(const source_location& location) const {
        in_place located;
        located.location_ = location;
        return located;
    }

private:
    source_location location_{};  // line 0: that of each call
};

}  // namespace sluice
