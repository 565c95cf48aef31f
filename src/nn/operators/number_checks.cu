// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/number_checks.hpp"

#include <atomic>
#include <string>

#include "nn/operators/launch_each.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

struct checked_numbers {
    const void* at;
    in_word<bool> is_wide;
    number_range allowed;

    SLUICE_KERNEL std::int64_t operator[](std::size_t i) const {
        return is_wide ? static_cast<const std::int64_t*>(at)[i] : static_cast<const std::int32_t*>(at)[i];
    }
    SLUICE_KERNEL bool is_fine(std::size_t i) const {
        const std::int64_t number = (*this)[i];
        return number >= allowed.least && number <= allowed.most;
    }
};

std::string text_of(number_range allowed) {
    return allowed.most < allowed.least
               ? std::string("; nothing is possible")
               : "; " + std::to_string(allowed.least) + " to " + std::to_string(allowed.most) + " are possible";
}

// What all waiters get: on the thread of a CPU device.
struct checking_call {
    checked_numbers numbers;
    std::size_t count;

    static void run(const void* erased) {
        const auto& self = *static_cast<const checking_call*>(erased);
        for (std::size_t i = 0; i < self.count; ++i) {
            if (!self.numbers.is_fine(i))
                throw error(errc::out_of_range, "index " + std::to_string(self.numbers[i]) + " (number " +
                                                    std::to_string(i) + " of its tensor) is out of range" +
                                                    text_of(self.numbers.allowed));
        }
    }
};

// The place of the first number that is out of range; all bits 1 where there is none.
struct first_wrong_number {
    checked_numbers numbers;
    unsigned long long* found;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        if (numbers.is_fine(i)) return;
#if defined(__CUDA_ARCH__)
        atomicMin(found, static_cast<unsigned long long>(i));
#else
        const std::atomic_ref<unsigned long long> first(*found);
        for (unsigned long long now = first; i < now && !first.compare_exchange_weak(now, i);) {
        }
#endif
    }
};

}  // namespace

std::string text_of_wrong_number(const device_check& check, std::uint64_t at) {
    return "number " + std::to_string(at) + " of an input that holds indices is out of range" + text_of(check.allowed);
}

void require_numbers(const node_call& in, const any_tensor& numbers, number_range allowed, const any_tensor& y) {
    if (numbers.type() != io::dtype::i32 && numbers.type() != io::dtype::i64) in.refuse_type(numbers);
    if (numbers.elements() == 0 || in.where() == place::nowhere) return;
    const bool is_wide = numbers.type() == io::dtype::i64;
    if (numbers.is_on_host()) {
        const checked_numbers here{numbers.bytes().data(), is_wide, allowed};
        for (std::size_t i = 0; i < numbers.elements(); ++i) {
            if (here.is_fine(i)) continue;
            throw file_error(*in.environment().path, file_error::no_offset, in.label(),
                             "has the index " + std::to_string(here[i]) + text_of(allowed), errc::out_of_range);
        }
        return;
    }
    const checked_numbers there{in.read<void>(numbers), is_wide, allowed};
    if (in.context().device().kind() == device_kind::cpu) {
        checking_call closure{there, numbers.elements()};
        launch_command command;
        command.host_function = &checking_call::run;
        command.may_fail = true;
        sluice::detail::set_closure(command, closure);
        detail::submit(in, command, {&numbers}, {&y});
        return;
    }
    if (in.environment().checks == nullptr) return;
    const any_tensor found = in.make(io::dtype::u64, {1});
    const memory_access written{found.memory(), access_mode::write};
    in.context().stream().fill({in.name(), {&written, 1}}, {found.memory()->data(), 0xff, sizeof(std::uint64_t)});
    each(in, numbers.elements(), first_wrong_number{there, in.write<unsigned long long>(found)}, {&numbers}, {&found});
    in.environment().checks->push_back({in.label(), found, allowed});
}

}  // namespace sluice::nn::operators
