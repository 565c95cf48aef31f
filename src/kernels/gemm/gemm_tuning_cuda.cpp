// SPDX-License-Identifier: Apache-2.0
// tune_gemm on a GPU: each way of each problem inside a graph, so that the host's time does not count, in turns.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "cuda/api/commands.hpp"
#include "cuda/api/graph.hpp"
#include "cuda/api/runtime.hpp"
#include "kernels/gemm/gemm_algorithms.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::kernels {
namespace {

namespace api = cuda::api;

// A way other than cuBLASLt's first must take less than this of its time, in the worst of several sessions. One
// kernel's times differ by 10 % from place to place in memory (1000 x 1000 x 1000, H200) and by a few more when the GPU
// has just worked hard and has lower clocks, which not all ways mind alike: each session has other memory, and one a
// hot GPU.
constexpr double worth_it = 0.97;
enum class session : unsigned char { first, hot, last };
constexpr int rounds = 3;  // in each session
constexpr double heating_milliseconds = 60;
constexpr double reheating_milliseconds = 8;  // before each turn
// How fast a large product is depends on what ran in the milliseconds before, presumably through power and clocks; so
// a way runs for some by itself before it is timed. (Seen on an H200, 8192 x 8192 x 8192: a kernel that was not the
// fastest in turns of 3 ms won by 5 % in turns of 12.) For small ones turns need only be long against the events'
// resolution.
constexpr double is_large_microseconds = 80;
constexpr double large_turn_microseconds = 12'000;
constexpr double small_turn_microseconds = 2'000;
constexpr double glance_microseconds = 400;
constexpr double hopeless = 1.3;  // times the fastest, at a glance: not looked at again
constexpr int most_calls = 32;    // in one graph

// Calls of one way, one after the other.
class timed_calls {
public:
    timed_calls(const gemm_call& call, const native_stream& on, int calls) : calls_(calls) {
        const error_context context{"tune_gemm"};
        graph_ = api::create_graph();
        static_cast<void>(api::capture(
            graph_.get(), {}, static_cast<CUstream_st*>(on.handle),
            [&] {
                for (int i = 0; i < calls; ++i) gemm_on_cuda(call, on);
            },
            context));
        exec_ = api::instantiate(graph_.get(), false, context);
    }
    // Microseconds of one call.
    double run(CUstream_st* on, CUevent_st* from, CUevent_st* to, int launches = 1) const {
        launch(on, (launches + 1) / 2);  // warm up: the previous way left its data and clocks
        api::record(from, on);
        launch(on, launches);
        api::record(to, on);
        api::synchronize(to);
        return 1e3 * static_cast<double>(api::elapsed_milliseconds(from, to)) / (calls_ * launches);
    }

    void launch(CUstream_st* on, int times) const {
        for (int i = 0; i < times; ++i) api::launch(exec_.get(), on, {"tune_gemm"});
    }

private:
    int calls_;
    api::graph_handle graph_;
    api::graph_exec_handle exec_;
};

class tuner {
public:
    explicit tuner(device& gpu) : gpu_(gpu), policy_(gpu), home_(policy_.next()) {
        const api::device_scope scope(ordinal());
        from_ = api::create_event(api::event_use::timing);
        to_ = api::create_event(api::event_use::timing);
    }

    gemm_measurement measure(const gemm_problem& of) {
        const api::device_scope scope(ordinal());
        if (of.type == gemm_type::bf16) return measure_as<bfloat16>(of);
        if (of.type == gemm_type::f16) return measure_as<half>(of);
        return measure_as<float>(of);
    }

private:
    struct contender {
        gemm_algorithm way;
        double worst = 0;  // of the sessions: its time over the first way's
        // In that session.
        double microseconds = 0;
        double first_ways_microseconds = 0;
    };

    template <typename T>
    struct operands {
        tensor<T> a, b, out;
        tensor<unsigned char> workspace;

        gemm_call call(const gemm_problem& of) {
            return {a.device_data(),
                    b.device_data(),
                    nullptr,
                    out.device_data(),
                    workspace.device_data(),
                    of,
                    activation::none,
                    {}};
        }
    };
    template <typename T>
    operands<T> make_operands(const gemm_problem& of) {
        const shape b = of.b_is_transposed ? shape{of.columns, of.inner} : shape{of.inner, of.columns};
        operands<T> made{random<T>({of.rows, of.inner}),
                         random<T>(b),
                         {home_, {of.rows, of.columns}, {"tune_gemm"}},
                         {home_, {gemm_on_cuda_workspace_bytes()}, {"tune_gemm"}}};
        gpu_.synchronize();
        return made;
    }
    template <typename T>
    tensor<T> random(const shape& of) {
        tensor<float> made = sync(randn(of, 7), policy_);
        if constexpr (std::same_as<T, float>) {
            return made;
        } else {
            return sync(cast<T>(std::move(made)), policy_);
        }
    }

    template <typename T>
    gemm_measurement measure_as(const gemm_problem& of) {
        std::vector<operands<T>> places;  // all are kept, so that each session has others
        places.reserve(3);
        std::vector<contender> all;
        for (const session each : {session::first, session::hot, session::last}) {
            places.push_back(make_operands<T>(of));
            const gemm_call call = places.back().call(of);
            if (each == session::first) all = find_contenders(call);
            run(each, call, all);
            const double bar = all.front().way == gemm_algorithm{} ? worth_it : std::numeric_limits<double>::infinity();
            all.erase(std::remove_if(all.begin() + 1, all.end(), [&](const auto& one) { return one.worst >= bar; }),
                      all.end());
            if (all.size() == 1) break;
        }
        gpu_.synchronize();
        const contender& best = *std::min_element(
            all.begin(), all.end(), [](const contender& x, const contender& y) { return x.worst < y.worst; });
        const double library = all.front().way == gemm_algorithm{} ? best.first_ways_microseconds : 0;
        return {of, to_string(best.way), best.microseconds, library};
    }

    // The ways that are not hopeless at a glance.
    std::vector<contender> find_contenders(gemm_call call) {
        std::vector<contender> all;
        for (const gemm_algorithm& way : gemm_algorithms_for(gpu_, call)) {
            call.way = way;
            gemm_on_cuda(call, home_.native());  // loads what has to be loaded
            if (all.empty()) {
                const double once = time(timed_calls(call, home_.native(), 1), 1);
                calls_ = static_cast<int>(std::clamp<double>(glance_microseconds / once, 1, most_calls));
            }
            all.push_back({way, 0, time(timed_calls(call, home_.native(), calls_), 1), 0});
        }
        if (all.empty())
            throw error(errc::unsupported, "there is no way to compute this product", {"tune_gemm", gpu_.name()});
        const auto is_faster = [](const contender& x, const contender& y) { return x.microseconds < y.microseconds; };
        glance_ = std::min_element(all.begin(), all.end(), is_faster)->microseconds;
        all.erase(std::remove_if(all.begin() + 1, all.end(),
                                 [&](const contender& each) { return each.microseconds > hopeless * glance_; }),
                  all.end());
        return all;
    }

    // All contenders in turns.
    void run(session what, gemm_call call, std::vector<contender>& all) {
        std::vector<timed_calls> graphs;
        for (const contender& each : all) {
            call.way = each.way;
            graphs.emplace_back(call, home_.native(), calls_);
        }
        // A large product is its own heating.
        const bool is_large = glance_ > is_large_microseconds;
        const bool heats = what == session::hot && !is_large;
        if (heats) heat(heating_milliseconds);
        const double turn = is_large ? large_turn_microseconds : small_turn_microseconds;
        const int launches = static_cast<int>(std::clamp<double>(turn / (calls_ * glance_), 1, 100));
        std::vector<std::vector<double>> times(all.size());
        for (int round = 0; round < rounds; ++round) {
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (heats) heat(reheating_milliseconds);
                times[i].push_back(time(graphs[i], launches));
            }
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            std::nth_element(times[i].begin(), times[i].begin() + rounds / 2, times[i].end());
            const double median = times[i][rounds / 2], first = times[0][rounds / 2];
            if (median / first < all[i].worst) continue;
            all[i].worst = median / first;
            all[i].microseconds = median;
            all[i].first_ways_microseconds = first;
        }
    }

    double time(const timed_calls& calls, int launches) {
        return calls.run(native(), from_.get(), to_.get(), launches);
    }
    int ordinal() const { return cuda::device_context::of(gpu_).ordinal(); }
    CUstream_st* native() const { return static_cast<CUstream_st*>(home_.native().handle); }

    // Keeps the GPU busy for this long.
    void heat(double milliseconds) {
        if (!heater_) {
            const gemm_problem hard{gemm_type::f16, true, 4096, 4096, 4096};
            heater_operands_.emplace(make_operands<half>(hard));
            gemm_on_cuda(heater_operands_->call(hard), home_.native());
            heater_.emplace(heater_operands_->call(hard), home_.native(), 4);
            heater_milliseconds_ = 4e-3 * time(*heater_, 1);
        }
        heater_->launch(native(), static_cast<int>(std::ceil(milliseconds / heater_milliseconds_)));
    }

    device& gpu_;
    single_stream policy_;
    stream home_;
    api::event_handle from_, to_;
    int calls_ = 1;      // in a graph, of the current problem
    double glance_ = 0;  // the fastest way's microseconds, roughly
    std::optional<operands<half>> heater_operands_;
    std::optional<timed_calls> heater_;
    double heater_milliseconds_ = 0;
};

gemm_algorithm way_named(device& gpu, const gemm_measurement& of) {
    gemm_call call{};
    call.problem = of.of;
    for (const gemm_algorithm& each : gemm_algorithms_for(gpu, call)) {
        if (to_string(each) == of.fastest) return each;
    }
    return {};
}

}  // namespace

std::vector<gemm_measurement> tune_gemm_on_cuda(device& gpu, std::span<const gemm_problem> problems,
                                                const std::filesystem::path& file,
                                                const std::function<void(const gemm_measurement&)>& done) {
    auto& choices = cuda::device_context::of(gpu).kept<gemm_algorithms>();
    tuner measures(gpu);
    std::vector<gemm_measurement> made;
    for (const gemm_problem& each : problems) {
        made.push_back(measures.measure(each));
        if (done) done(made.back());
    }
    // What the file knew of other problems stays.
    gemm_table table = usable_gemm_table(file, choices.origin(), [](const std::string&) {});
    for (const gemm_measurement& each : made) {
        std::erase_if(table.entries, [&](const gemm_measurement& old) { return old.of == each.of; });
        table.entries.push_back(each);
        choices.add(each.of, way_named(gpu, each));
    }
    write_gemm_table(file, table);
    return made;
}

}  // namespace sluice::kernels
