// SPDX-License-Identifier: Apache-2.0
// All steps of a recurrent layer as one kernel. A cluster has some rows of one direction, and each of its blocks some
// units, whose weights stay in the block's shared memory. Each block has the states of all units, for the step and for
// the next one: what a warp computes it writes into the shared memory of all blocks. Then the cluster waits, once in a
// step, or twice for a GRU whose reset gate comes before the product.
//
// The two states change places, so that no block overwrites what another one still reads: what is written in a step
// was read last in the step before, and all have waited since.
#pragma once

#include <cstddef>

#include "kernels/recurrent/recurrent_group.hpp"
#include "sluice/base/block_cluster.hpp"

namespace sluice::kernels {

template <typename T, recurrent_kind Kind, unsigned Rows>
class recurrent_cluster {
public:
    SLUICE_KERNEL recurrent_cluster(const recurrent_clusters& of, const block_cluster& cluster)
        : of_(of), cluster_(cluster) {}

    SLUICE_KERNEL void run() const {
        input ahead[2] = {input::none(), input::none()};  // on a GPU: of each pass, what the thread's lane needs next
        cluster_.for_each_block([&](const thread_block& block) {
            const group its = group_of(block);
            block.for_each_thread([&](const block_thread& t) {
                its.fill(t.index(), block.threads());
                its.keep_weights(weights_of(block), t.index(), block.threads());
            });
            block.sync();
            block.for_each_thread([&](const block_thread& t) {
                ahead[0] = input_at<0>(its, units_of(block), t.index() / lanes_of_warp, 0, t.index() % lanes_of_warp);
                if constexpr (has_two_passes)
                    ahead[1] =
                        input_at<1>(its, units_of(block), t.index() / lanes_of_warp, 0, t.index() % lanes_of_warp);
            });
        });
        cluster_.sync();
        for (std::size_t step = 0; step < of_.call.steps; ++step) {
            run_pass<0>(step, ahead[0]);
            cluster_.sync();
            if constexpr (has_two_passes) {
                run_pass<1>(step, ahead[1]);
                cluster_.sync();
            }
        }
        cluster_.for_each_block([&](const thread_block& block) {
            const group its = group_of(block);
            block.for_each_thread([&](const block_thread& t) {
                for (std::size_t unit = t.index() / lanes_of_warp; unit < units_of(block); unit += warps_of(block))
                    its.write_y(unit, of_.call.steps - 1, t.index() % lanes_of_warp);
            });
        });
    }

private:
    using group = recurrent_group<T, Kind, Rows>;
    using input = recurrent_input<T>;
    static constexpr bool has_two_passes = passes_of(Kind) == 2;

    SLUICE_KERNEL T* weights_of(const thread_block& block) const {
        return reinterpret_cast<T*>(block.data(of_.shared) + of_.division.floats.count());
    }
    SLUICE_KERNEL std::size_t first_unit_of(const thread_block& block) const {
        return cluster_.rank(block) * of_.division.units;
    }
    // The last blocks may have fewer, or none.
    SLUICE_KERNEL std::size_t units_of(const thread_block& block) const {
        const std::size_t first = first_unit_of(block), hidden = of_.call.hidden, units = of_.division.units;
        return first >= hidden ? 0 : hidden - first < units ? hidden - first : units;
    }
    SLUICE_KERNEL static std::size_t warps_of(const thread_block& block) { return block.threads() / lanes_of_warp; }
    SLUICE_KERNEL group group_of(const thread_block& block) const {
        const std::size_t number = cluster_.index(), units = units_of(block), kept = of_.division.kept;
        return {of_.call,
                of_.division.floats,
                block.data(of_.shared),
                weights_of(block),
                number / of_.division.groups,
                number % of_.division.groups * Rows,
                first_unit_of(block),
                kept < units ? kept : units};
    }
    // Past the last unit of a warp: that of its first unit in the next step.
    template <unsigned Pass>
    SLUICE_KERNEL input input_at(const group& its, std::size_t units, std::size_t unit, std::size_t step,
                                 unsigned lane) const {
        return unit < units && step < of_.call.steps ? its.template input_of_lane<Pass>(unit, step, lane)
                                                     : input::none();
    }

    template <unsigned Pass>
    SLUICE_KERNEL void run_pass(std::size_t step, input& ahead) const {
        cluster_.for_each_block([&](const thread_block& block) {
            const group its = group_of(block);
            const std::size_t units = units_of(block), warps = warps_of(block);
            const auto put = [&](unsigned rank, std::size_t place, float value) {
                cluster_.data(of_.shared, rank)[place] = value;
            };
            block.for_each_thread([&](const block_thread& t) {
                const unsigned lane = t.index() % lanes_of_warp;
                const std::size_t first = t.index() / lanes_of_warp;
                for (std::size_t unit = first; unit < units; unit += warps) {
                    // The memory's answer is needed only after the products of the unit before.
                    const input now = ahead;
                    const bool is_last = unit + warps >= units;
                    ahead = input_at<Pass>(its, units, is_last ? first : unit + warps, is_last ? step + 1 : step, lane);
                    // The step before gives its output only now: the cluster's barrier would wait for the memory.
                    if (Pass == 0 && step > 0) its.write_y(unit, step - 1, lane);
                    its.template run<Pass>(unit, step, lane, now, cluster_.blocks(), put);
                }
            });
        });
    }

    const recurrent_clusters& of_;
    const block_cluster& cluster_;
};

}  // namespace sluice::kernels
