#include "run_command.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <memory>

#include "exit_status.hpp"
#include "progress_bar.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/npy.hpp"
#include "sluice/nn/npy_writer.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/trace_recorder.hpp"
#include "sluice/runtime/transfer.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

void ask_to_stop(int) { stop_asked = 1; }

// While it lives, SIGINT and SIGTERM only ask; the run ends between two batches and leaves no file behind.
class signal_guard {
public:
    signal_guard() : interrupt_(take_over(SIGINT)), terminate_(take_over(SIGTERM)) { stop_asked = 0; }
    signal_guard(const signal_guard&) = delete;  // it undoes what it did
    signal_guard& operator=(const signal_guard&) = delete;
    ~signal_guard() {
        std::signal(SIGINT, interrupt_);
        std::signal(SIGTERM, terminate_);
    }

private:
    using handler = void (*)(int);

    // A signal that was ignored (nohup, background jobs) stays so.
    static handler take_over(int signal) {
        const handler before = std::signal(signal, ask_to_stop);
        if (before == SIG_IGN) std::signal(signal, SIG_IGN);
        return before;
    }

    handler interrupt_;
    handler terminate_;
};

[[noreturn]] void refuse(const nn::npy_view& file, const char* field, const std::string& why) {
    throw file_error(file.path(), file_error::no_offset, field, why);
}

void check_input(const nn::npy_view& input, std::size_t width) {
    if (input.shape().size() != 2) refuse(input, "shape", "the input must have two dimensions, rows and features");
    if (input.rows() == 0) refuse(input, "shape", "there are no rows");
    if (input.shape()[1] != width) {
        refuse(input, "shape",
               "rows have " + std::to_string(input.shape()[1]) + " values, the network takes " + std::to_string(width));
    }
}

// Labels: one whole number a row.
class label_reader {
public:
    label_reader(const std::filesystem::path& path, std::size_t rows, std::size_t classes) : file_(path) {
        const nn::npy_view& view = file_.view();
        if (view.shape().size() != 1 || view.rows() != rows) {
            refuse(view, "shape", "there must be one label for each of the " + std::to_string(rows) + " input rows");
        }
        if (view.element_type() == nn::dtype::f16 || view.element_type() == nn::dtype::boolean) {
            refuse(view, "descr", "labels are numbers of classes");
        }
        if (view.element_type() == nn::dtype::f64) {
            labels_ = view.values<double>();  // as they are: a float would round them
        } else {
            std::vector<float> narrow(rows);
            view.read_rows(0, narrow);
            labels_.assign(narrow.begin(), narrow.end());
        }
        for (std::size_t row = 0; row < rows; ++row) {
            const double label = labels_[row];
            if (label >= 0 && label < static_cast<double>(classes) && label == std::floor(label)) continue;
            refuse(view, "data",
                   "label of row " + std::to_string(row) + " is not a class from 0 to " + std::to_string(classes - 1));
        }
    }

    std::size_t count_correct(std::size_t first, std::span<const float> outputs, std::size_t width) const {
        std::size_t correct = 0;
        for (std::size_t row = 0; row * width < outputs.size(); ++row) {
            const auto scores = outputs.subspan(row * width, width);
            // A row with NaN is no answer at all.
            if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) continue;
            const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
            correct += static_cast<double>(best) == labels_[first + row] ? 1 : 0;
        }
        return correct;
    }

private:
    nn::npy_file file_;
    std::vector<double> labels_;
};

class reference_reader {
public:
    reference_reader(const std::filesystem::path& path, std::size_t rows, std::size_t outputs) : file_(path) {
        const nn::npy_view& view = file_.view();
        if (view.shape() != std::vector<std::size_t>{rows, outputs}) {
            refuse(view, "shape",
                   "the reference must have " + std::to_string(rows) + " rows of " + std::to_string(outputs));
        }
    }

    float largest_difference(std::size_t first, std::span<const float> outputs) const {
        std::vector<float> expected(outputs.size());
        file_.view().read_rows(first, expected);
        float largest = 0;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const float difference = std::abs(outputs[i] - expected[i]);
            if (!(difference <= largest)) largest = difference;  // NaN sticks
            if (std::isnan(largest)) break;
        }
        return largest;
    }

private:
    nn::npy_file file_;
};

std::vector<device*> pick_devices(const runtime& machine, const std::string& name) {
    if (name != "all") return {&machine.find(name)};
    // All of the best kind: a CPU beside GPUs would only hold them up.
    std::vector<device*> picked;
    const device_kind kind = machine.default_device().kind();
    for (device* each : machine.devices()) {
        if (each->kind() == kind) picked.push_back(each);
    }
    return picked;
}

// Enough that a worker always finds a batch to go on with; a GPU has its own queues.
std::size_t streams_for(const device& on) {
    return on.kind() == device_kind::cpu ? 4 * static_cast<std::size_t>(on.properties().compute_units) : 4;
}

// Rows of the input as batches on a device. Mapped f32 rows are copied once, by whoever copies to the
// device; other types are converted first.
any_operation<tensor<float>> read_batch(const std::shared_ptr<const nn::npy_file>& input, std::size_t first,
                                        std::size_t count) {
    const nn::npy_view& view = input->view();
    const shape shape{count, view.row_elements()};
    const std::span<const std::byte> bytes = view.row_range(first, count);
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
    if (view.element_type() == nn::dtype::f32 && aligned) {
        return upload(std::span(reinterpret_cast<const float*>(bytes.data()), shape.size()), input, shape);
    }
    std::vector<float> converted(shape.size());
    view.read_rows(first, converted);
    return upload(std::move(converted), shape);
}

// Lets go of the input's pages behind the rows that are done, some at a time: each call interrupts every core.
void forget_behind(const nn::npy_file& input, std::size_t& forgotten, std::size_t done) {
    constexpr std::size_t step_bytes = std::size_t{32} << 20;
    if ((done - forgotten) * input.view().row_bytes() < step_bytes) return;
    input.forget_rows(forgotten, done - forgotten);
    forgotten = done;
}

// Each target is a file of its own: of two the last one written would be all that is left.
void check_targets(const run_options& options) {
    std::vector<std::filesystem::path> seen;
    for (const auto* each : {&options.output, &options.trace, &options.timeline}) {
        if (!*each) continue;
        const auto target = std::filesystem::absolute(**each).lexically_normal();
        if (std::find(seen.begin(), seen.end(), target) != seen.end()) {
            throw error(errc::invalid_argument, (*each)->string() + " is to be written twice", {"run"});
        }
        seen.push_back(target);
    }
}

// Says why it failed; empty when it did not.
std::string write_traces(trace_files& to, trace_recorder& from, const run_options& options) {
    try {
        to.write(from.take(), {.title = "sluice run " + options.model.filename().string()});
        return {};
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

}  // namespace

run_result run(const run_options& options) {
    // Everything is read and checked before a device is touched or a file is made.
    nn::mlp_model model = nn::load_mlp(options.model);
    const auto input = std::make_shared<const nn::npy_file>(options.input);
    check_input(input->view(), model.in_features());
    run_result result;
    result.rows = input->view().rows();
    result.outputs = model.out_features();
    std::optional<label_reader> labels;
    if (options.labels) labels.emplace(*options.labels, result.rows, result.outputs);
    std::optional<reference_reader> reference;
    if (options.reference) reference.emplace(*options.reference, result.rows, result.outputs);

    check_targets(options);
    std::optional<trace_recorder> recorder;
    if (options.trace || options.timeline) recorder.emplace();
    runtime machine({.cuda = options.device.rfind("cpu", 0) != 0, .trace = recorder ? &*recorder : nullptr});
    const std::vector<device*> devices = pick_devices(machine, options.device);
    std::vector<std::unique_ptr<round_robin>> pools;
    result.streams = options.streams != 0 ? options.streams : streams_for(*devices.front());
    nn::engine engine({.batch = options.batch, .in_flight = 4 * result.streams * devices.size()});
    for (device* each : devices) {
        result.devices.push_back({each->name(), each->properties().name});
        pools.push_back(std::make_unique<round_robin>(*each, result.streams));
        engine.add(sync(nn::make_plan(model), *pools.back()), *pools.back());
    }
    engine.warm_up(result.rows);
    const signal_guard guard;  // before there is a file to leave behind
    std::optional<nn::npy_writer> writer;
    if (options.output) writer.emplace(*options.output, std::vector{result.rows, result.outputs});
    trace_files traces(options.trace, options.timeline);
    if (recorder) static_cast<void>(recorder->take());  // the warm-up
    if (labels) result.correct = 0;
    if (reference) result.largest_difference = 0.0f;

    std::size_t forgotten = 0;
    progress_bar progress(result.rows);
    const auto start = std::chrono::steady_clock::now();
    engine.run(
        result.rows, [&](std::size_t first, std::size_t count) { return read_batch(input, first, count); },
        [&](std::size_t first, std::span<const float> outputs) {
            if (stop_asked != 0) throw interruption();
            const std::size_t count = outputs.size() / result.outputs;
            forget_behind(*input, forgotten, first + count);
            if (writer) writer->write_rows(first, outputs);
            if (labels) *result.correct += labels->count_correct(first, outputs, result.outputs);
            if (reference) {
                const float difference = reference->largest_difference(first, outputs);
                if (!(difference <= *result.largest_difference)) result.largest_difference = difference;
            }
            progress.update(first + count);
        });
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (writer) writer->commit();
    if (recorder) {
        result.commands_not_traced = recorder->dropped();
        result.trace_failure = write_traces(traces, *recorder, options);
    }
    return result;
}

}  // namespace sluice::app
