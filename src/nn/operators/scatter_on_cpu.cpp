// SPDX-License-Identifier: Apache-2.0
// Lines that are neighbours take each step together. What is done with an element is chosen once for all of them.
#include <algorithm>
#include <type_traits>

#include "nn/operators/index_places.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/moves_on_cpu.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/scattering.hpp"

namespace sluice::nn::operators {
namespace {

template <scatter_reduction How>
using how_constant = std::integral_constant<scatter_reduction, How>;

template <typename T>
struct scattered_on_host {
    const T* updates;
    T* y;
    scatter_reduction how;
    scatter_lines at;

    // The numbers are updates, of which a line has `steps`.
    std::size_t host_unit() const { return at.steps; }
    void operator()(std::size_t) const {}  // for a CPU only

    void on_host(std::size_t first, std::size_t last) const {
        switch (how) {
            case scatter_reduction::replace: return lines(how_constant<scatter_reduction::replace>(), first, last);
            case scatter_reduction::add: return lines(how_constant<scatter_reduction::add>(), first, last);
            case scatter_reduction::multiply: return lines(how_constant<scatter_reduction::multiply>(), first, last);
            case scatter_reduction::least: return lines(how_constant<scatter_reduction::least>(), first, last);
            case scatter_reduction::most: return lines(how_constant<scatter_reduction::most>(), first, last);
        }
    }

private:
    template <typename How>
    void lines(How, std::size_t first, std::size_t last) const {
        const std::size_t begin = first / at.steps, end = last / at.steps;
        with_places(at.indices, at.length, [&](const auto& place_of) {
            if (at.is_of_runs != 0) {
                runs<How::value>(place_of, begin, end);
            } else {
                for (std::size_t line = begin, some = 0; line < end; line += some) {
                    some = std::min(at.run - line % at.run, end - line);
                    neighbours<How::value>(place_of, line, some);
                }
            }
        });
    }
    // A step of all these lines.
    template <scatter_reduction How, typename Places>
    void runs(const Places& place_of, std::size_t begin, std::size_t end) const {
        const auto by_place = static_cast<std::int64_t>(at.stride);
        for (std::size_t step = 0; step < at.steps; ++step) {
            const std::int64_t place = place_of(step);
            if (place < 0) continue;
            T* __restrict const to = y + place * by_place;
            const T* __restrict const from = updates + step * at.update_step;
            if constexpr (How == scatter_reduction::replace) {
                copy_run(from + begin, end - begin, to + begin);
            } else {
                for (std::size_t k = begin; k < end; ++k) to[k] = scattered(How, to[k], from[k]);
            }
        }
    }
    // Some lines from this one on, which are neighbours.
    template <scatter_reduction How, typename Places>
    void neighbours(const Places& place_of, std::size_t line, std::size_t some) const {
        const auto by_place = static_cast<std::int64_t>(at.stride);
        T* const to = y + at.target(line);
        const T* from = updates + at.update(line);
        auto index = static_cast<std::size_t>(at.index(line));
        for (std::size_t step = 0; step < at.steps; ++step, from += at.update_step, index += at.index_step) {
            for (std::size_t k = 0; k < some; ++k) {
                const std::int64_t place = place_of(index + k);
                if (place < 0) continue;
                T& there = to[static_cast<std::int64_t>(k) + place * by_place];
                there = scattered(How, there, from[k]);
            }
        }
    }
};

}  // namespace

bool scatter_on_cpu(const node_call& in, const any_tensor& indices, const any_tensor& updates, const scatter_lines& at,
                    scatter_reduction how, const any_tensor& y) {
    if (is_on_gpu(in)) return false;
    const auto run = [&]<typename T>() {
        each(in, at.lines * at.steps, scattered_on_host<T>{in.read<T>(updates), in.write<T>(y), how, at},
             {&indices, &updates}, {&y});
    };
    how == scatter_reduction::replace ? with_word(y.type(), run) : with_type(y.type(), run);
    return true;
}

}  // namespace sluice::nn::operators
