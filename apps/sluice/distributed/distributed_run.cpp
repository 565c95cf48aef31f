// SPDX-License-Identifier: Apache-2.0
#include "distributed_run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <system_error>

#include "rank_job.hpp"
#include "shares.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/io/process_files.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/network_file.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/output_names.hpp"
#include "sluice/process_guard.hpp"
#include "sluice/progress_bar.hpp"
#include "sluice/requirements.hpp"
#include "sluice/row_network.hpp"
#include "sluice/run_devices.hpp"
#include "sluice/run_inputs.hpp"
#include "sluice/run_network.hpp"
#include "sluice/run_precision.hpp"

namespace sluice::app {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"--distributed"}); }

void refuse_options_of_one_process(const run_options& options) {
    if (options.trace || options.timeline) {
        refuse("--trace and --timeline record one process: give them to a run of its own, without --distributed");
    }
    if (options.measure_seconds) {
        refuse("--measure repeats the run of one process: give it to a run of its own, without --distributed");
    }
}

// JSON has neither infinity nor NaN, which are two different things to report.
std::string as_text(float value) {
    std::array<char, 32> text{};
    return {text.data(), static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%a", double{value}))};
}

float float_from(const std::string& text) { return std::strtof(text.c_str(), nullptr); }

// Of all numbers of the network, also of those that its file only names.
std::size_t digest_of(const nn::graph& of) {
    std::size_t sum = 0;
    const auto add = [&](std::size_t hash) { sum = sum * 1'000'003 + hash; };
    for (const auto& [name, value] : of.constants) add(std::hash<std::string>()(*value.bytes));
    for (const nn::node& each : of.nodes) {
        for (const auto& [name, value] : each.attributes) {
            if (const auto* const inner = std::get_if<std::shared_ptr<const nn::graph>>(&value))
                add(digest_of(**inner));
            if (const auto* const numbers = std::get_if<nn::constant>(&value))
                add(std::hash<std::string>()(*numbers->bytes));
        }
    }
    return sum;
}

json to_json(std::optional<activation> named) { return named ? json(to_string(*named)) : json(); }
std::optional<activation> activation_in(const json& from) {
    return from.is_null() ? std::nullopt : activation_from_string(from.get<std::string>());
}

// What must be the same on every rank for their outputs to be of one run.
json terms_of(const run_options& options, std::size_t rows) {
    return {{"rows of the input", rows},
            {"--batch", options.batch},
            {"--labels", options.labels.has_value()},
            {"--reference", options.reference.has_value()},
            {"--output", options.output.has_value()},
            {"--tolerance", options.tolerance ? json(*options.tolerance) : json()},
            {"--min-accuracy", options.min_accuracy ? json(*options.min_accuracy) : json()}};
}

void check_terms(const json& here, const json& first) {
    for (const auto& [name, mine] : here.items()) {
        if (mine == first[name]) continue;
        const auto in_words = [](const json& each) {
            if (each.is_null()) return std::string("not given");
            return each.is_boolean() ? std::string(each.get<bool>() ? "given" : "not given") : each.dump();
        };
        refuse(name + ": " + in_words(mine) + " here, " + in_words(first[name]) + " on rank 0");
    }
}

// Removes the output's temporary file unless it has got its name, also when a signal requests the end: mpirun gives the
// ranks little time then. When rank 0 has ended, the others remove its file.
class leftover {
public:
    leftover(signal_guard& signals, std::filesystem::path file)
        : signals_(signals), file_(std::move(file)), known_(file_) {
        signals_.remove_files_on_request(true);
    }
    leftover(const leftover&) = delete;  // it removes a file
    leftover& operator=(const leftover&) = delete;
    ~leftover() {
        signals_.remove_files_on_request(false);
        std::error_code ignored;
        std::filesystem::remove(file_, ignored);  // after the commit the file has another name
    }

private:
    signal_guard& signals_;
    std::filesystem::path file_;
    io::known_temporary known_;
};

// The output, of which each rank writes its rows: one file, which rank 0 creates and commits.
class shared_output {
public:
    // Blocks until all ranks have opened it.
    shared_output(rank_job& job, signal_guard& signals, const std::filesystem::path& target,
                  std::vector<std::size_t> shape)
        : job_(job) {
        io::npy_part part;
        if (job.rank() == 0) part = whole_.emplace(target, std::move(shape)).part();
        // As it is, for a path need not be UTF-8.
        part.file = job.share_text(part.file.string());
        const json numbers = json::parse(job.share_text(json{part.data_offset, part.rows, part.row_bytes}.dump()));
        part.data_offset = numbers[0];
        part.rows = numbers[1];
        part.row_bytes = numbers[2];
        mine_.emplace(part);
        leftover_.emplace(signals, part.file);
        job.agree();
    }

    void write_rows(std::size_t first, std::span<const float> outputs) { mine_->write_rows(first, outputs); }

    // Gives the file its name. Blocks until that is done.
    void commit(std::size_t rows_here) {
        job_.alive_while([&] { mine_->finish(); });
        for (const std::string& rows : job_.gather(std::to_string(rows_here))) {
            whole_->count_rows_of_others(std::stoull(rows));
        }
        if (whole_) job_.alive_while([&] { whole_->commit(); });
        job_.share_text({});  // until then no rank may release it
    }

private:
    rank_job& job_;
    std::optional<io::npy_writer> whole_;  // on rank 0
    std::optional<io::npy_part_writer> mine_;
    std::optional<leftover> leftover_;
};

// One rank's part of a run.
class rank_run {
public:
    rank_run(rank_job& job, signal_guard& signals, const run_options& options)
        : job_(job), signals_(signals), options_(options) {}

    // Blocks until the run ends. Only rank 0's result is complete.
    run_result run() {
        const nn::run_limit limit(options_.most_run_bytes);
        read();
        const run_devices devices(
            options_, {.cpu_workers = share_of_cores(job_.local_size())},
            [&](const runtime& machine) { return choose(machine); }, network_.network);
        network_ = {};
        devices.engine().warm_up(range_.count);
        std::optional<shared_output> output;
        if (options_.output) output.emplace(job_, signals_, *options_.output, std::vector{rows_, outputs_});
        job_.agree();

        progress_bar progress(rows_, options_.progress);
        if (job_.rank() == 0) job_.on_progress([&](std::size_t rows) { progress.update(rows); });
        const auto start = std::chrono::steady_clock::now();
        run_rows(devices.engine(), output);
        const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start); };
        const std::vector<std::string> parts = job_.gather(report(devices, seconds().count()).dump());
        run_result result = sum_of(parts);
        result.seconds = seconds().count();
        if (job_.rank() == 0) progress.update(rows_);
        require_unchanged();
        if (job_.rank() == 0) result.missed = missed_requirements(options_, result);
        const bool has_passed = job_.share_text(result.missed.empty() ? "passed" : "missed") == "passed";
        if (output && has_passed) output->commit(range_.count);
        return result;
    }

private:
    // The network from rank 0, everything else from files.
    void read() {
        json terms;
        if (job_.rank() == 0) {
            refuse_options_of_one_process(options_);
            refuse_precision_of_ranks(options_);
            run_options in_f32 = options_;
            in_f32.precision.clear();
            if (asks_for_whole_arrays(in_f32)) refuse("ranks share rows: give one input of rows, and one output file");
            check_output_names(options_);
            job_.alive_while([&] {
                file_ = io::regular_file(options_.model).read_all();
                network_ = network_in_file(options_.model, options_.network);
            });
            input_.emplace(options_, network_.in);
            terms = terms_of(options_, input_->count());
            terms["bytes of the network"] = file_.size();
            terms["features"] = {network_.in, network_.out};
            terms["activations"] = {to_json(options_.network.hidden), to_json(options_.network.output)};
        }
        terms = json::parse(job_.share_text(terms.dump()));
        // As it is, for a path need not be UTF-8. Its ending may say what the file is.
        const std::filesystem::path name = job_.share_text(options_.model.filename().string());
        if (job_.rank() != 0) {
            network_.in = terms["features"][0];
            network_.out = terms["features"][1];
            input_.emplace(options_, network_.in);
            check_terms(terms_of(options_, input_->count()), terms);
            file_.resize(terms["bytes of the network"]);
        }
        job_.agree();
        job_.broadcast(file_);
        if (job_.rank() != 0) {
            const json& named = terms["activations"];
            job_.alive_while([&] {
                network_ = network_in_file(options_.model.parent_path() / name,
                                           {.hidden = activation_in(named[0]), .output = activation_in(named[1])});
            });
        }
        file_ = {};
        const std::string mine = std::to_string(job_.alive_while([&] { return digest_of(network_.network.body); }));
        if (job_.share_text(mine) != mine) refuse("the network's external data is not that of rank 0");
        rows_ = input_->count();
        output_ = network_.network.body.outputs.front().name;
        outputs_ = network_.out;
        range_ = share_of_rows(rows_, options_.batch, job_.rank(), job_.size());
        checked_.emplace(options_, rows_, range_, outputs_);
    }

    row_network network_in_file(const std::filesystem::path& name, const nn::safetensors_options& activations) const {
        const nn::model read = read_model(file_, name, activations, links_of(options_.follows_links));
        std::optional<row_network> rows = by_rows(read);
        if (!rows) {
            refuse(
                "the network does not run row by row: accepted are networks with one input f32 [rows, features], one "
                "such output, and rows that are independent (sluice inspect says whether they are)");
        }
        return *std::move(rows);
    }

    // Ranks on one machine divide its devices, unless the options name one by number.
    device_set choose(const runtime& machine) const {
        const std::string& name = options_.device;
        if (name != "auto" && name != "all" && name != "cuda") return device_set{machine.find(name)};
        const device_set best = device_set::of(machine, name == "cuda" ? "cuda" : "all");
        std::vector<device*> chosen;
        for (const std::size_t each :
             share_of_devices(best.size(), name == "all", job_.local_rank(), job_.local_size())) {
            chosen.push_back(&best[each]);
        }
        return device_set(std::move(chosen));
    }

    void run_rows(const nn::engine& engine, std::optional<shared_output>& output) {
        engine.run(
            range_.count,
            [&](std::size_t first, std::size_t count) { return input_->rows({range_.first + first, count}); },
            [&](std::size_t first, std::span<const float> outputs) {
                const std::size_t done = first + outputs.size() / outputs_;
                input_->release_until(range_.first, range_.first + done);
                if (output) output->write_rows(range_.first + first, outputs);
                checked_->take(range_.first + first, outputs);
                job_.done(done);
            });
    }

    // All ranks find their files as they were before one of them commits.
    void require_unchanged() {
        input_->require_unchanged();
        checked_->require_unchanged();
        job_.agree();
    }

    json report(const run_devices& devices, double seconds) const {
        auto used = json::array();
        for (const device_use& each : devices.uses()) used.push_back({each.name, each.hardware});
        json part{{"rows", range_.count}, {"seconds", seconds}, {"streams", devices.streams()}, {"devices", used}};
        if (checked_->correct()) part["correct"] = *checked_->correct();
        if (checked_->largest_difference()) part["largest_difference"] = as_text(*checked_->largest_difference());
        return part;
    }

    run_result sum_of(const std::vector<std::string>& parts) const {
        run_result sum;
        sum.rows = rows_;
        sum.output = output_;
        sum.outputs = outputs_;
        if (options_.labels) sum.correct = 0;
        if (options_.reference) sum.largest_difference = 0.0f;
        for (const std::string& text : parts) {
            const json part = json::parse(text);
            const int rank = static_cast<int>(sum.ranks.size());
            rank_use& made = sum.ranks.emplace_back(
                rank_use{job_.host_of(rank), part["rows"], part["seconds"], part["streams"], {}});
            for (const json& each : part["devices"]) made.devices.push_back({each[0], each[1]});
            sum.devices.insert(sum.devices.end(), made.devices.begin(), made.devices.end());
            sum.streams = std::max(sum.streams, made.streams);
            if (sum.correct) *sum.correct += part["correct"].get<std::size_t>();
            if (sum.largest_difference) {
                const float value = float_from(part["largest_difference"].get<std::string>());
                sum.largest_difference = larger_difference(*sum.largest_difference, value);
            }
        }
        return sum;
    }

    rank_job& job_;
    signal_guard& signals_;
    const run_options& options_;
    std::vector<std::byte> file_;  // of the network, until it is read
    row_network network_;
    std::optional<input_rows> input_;
    std::size_t rows_ = 0;     // of the whole input
    std::string output_;       // the name of the network's output
    std::size_t outputs_ = 0;  // of it, of each row
    row_range range_;          // this rank's
    std::optional<output_check> checked_;
};

}  // namespace

exit_status run_distributed(const run_options& options, bool as_json, std::ostream& out, std::ostream& errors) {
    const mpi::session world(options.rank_timeout);
    guard_process();  // MPI has taken signals for itself
    signal_guard signals;
    rank_job job(world, signals, options.rank_timeout);
    return job.carry_out(
        [&] {
            const run_result result = rank_run(job, signals, options).run();
            if (job.rank() != 0) return;
            out << (as_json ? to_json(options, result) + "\n" : to_text(options, result));
            if (!out.flush()) throw std::runtime_error("cannot write to standard output");
            if (!result.missed.empty()) throw requirement_missed(result.missed);
        },
        errors);
}

}  // namespace sluice::app
