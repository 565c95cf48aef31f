// SPDX-License-Identifier: Apache-2.0
// Regions of tensors: uploads, downloads and copies move exactly their elements.
#include "sluice/runtime/region.hpp"

#include <numeric>
#include <random>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/support/awaiting.hpp"
#include "conformance/support/host_regions.hpp"
#include "sluice/runtime/copy_region.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/runtime/transfer_region.hpp"

namespace sluice::conformance::region_tests {
namespace {

class regions : public conformance_test {
protected:
    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, regions, testing::ValuesIn(enrolled_backends()), backend_name);

template <typename T = int>
std::vector<T> numbers(std::size_t count, int first = 0) {
    std::vector<T> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<T>(first + static_cast<int>(i));
    return all;
}

const shape matrix{37, 53};

// A rectangle, the whole, whole rows, whole columns, one row, one column, one element, nothing, what is aligned to 16
// bytes only at one side, and the last corner.
std::vector<region> rectangles() {
    return {{{2, 8}, {4, 16}},  {{}, matrix},       {{5, 0}, {7, 53}},  {{0, 9}, {37, 3}}, {{36, 0}, {1, 53}},
            {{0, 52}, {37, 1}}, {{11, 13}, {1, 1}}, {{37, 53}, {0, 0}}, {{1, 1}, {8, 8}},  {{30, 40}, {7, 13}}};
}

template <typename T>
void expect_equal(const std::vector<T>& made, const std::vector<T>& expected, const region& where) {
    EXPECT_TRUE(made == expected) << to_string(where);
}

}  // namespace

TEST_P(regions, an_upload_to_a_region_leaves_the_rest_as_it_is) {
    const auto before = numbers(matrix.size());
    for (const region& where : rectangles()) {
        const auto values = numbers(where.shape.size(), 10'000);
        auto work = upload(before, matrix)
                        .and_then([=](auto x) { return upload_to(std::move(x), where, values); })
                        .and_then(download);
        expect_equal(sync(std::move(work), pool), placed(before, matrix, where, values), where);
    }
}

TEST_P(regions, elements_of_one_byte_and_of_twelve_bytes_are_moved) {
    struct three {
        float x, y, z;
        bool operator==(const three&) const = default;
    };
    for (const region& where : rectangles()) {
        const auto bytes = numbers<unsigned char>(matrix.size());
        auto [all_bytes, some_bytes] = sync(upload(bytes, matrix).and_then(download_region(where)), pool);
        expect_equal(some_bytes, taken(bytes, matrix, where), where);
        std::vector<three> points(matrix.size());
        for (std::size_t i = 0; i < points.size(); ++i) points[i] = {static_cast<float>(i), 1, 2};
        auto [all_points, some_points] = sync(upload(points, matrix).and_then(download_region(where)), pool);
        expect_equal(some_points, taken(points, matrix, where), where);
        auto copied = sync(copy_region(std::move(all_points), where)
                               .transform([](auto, auto made) { return made; })
                               .and_then(download),
                           pool);
        expect_equal(copied, some_points, where);
    }
}

TEST_P(regions, host_memory_may_hold_a_larger_matrix) {
    const auto before = numbers(matrix.size());
    const region where{.at = {3, 5}, .shape = {9, 20}};
    const shape image{40, 64};
    const auto pixels = numbers(image.size(), 50'000);
    const host_layout there{.whole = image, .at = {7, 11}};
    const auto expected = placed(before, matrix, where, taken(pixels, image, {there.at, where.shape}));
    const auto owner = std::make_shared<const std::vector<int>>(pixels);
    auto of_vector = upload(before, matrix)
                         .and_then([=](auto x) { return upload_to(std::move(x), where, pixels, there); })
                         .and_then(download);
    EXPECT_EQ(sync(std::move(of_vector), pool), expected);
    auto of_owner = upload(before, matrix)
                        .and_then([=](auto x) { return upload_to(std::move(x), where, *owner, owner, there); })
                        .and_then(download);
    EXPECT_EQ(sync(std::move(of_owner), pool), expected);
    auto of_nobody = upload(before, matrix)
                         .and_then([&](auto x) { return upload_to(std::move(x), where, pixels, nullptr, there); })
                         .and_then(download);
    EXPECT_EQ(sync(std::move(of_nobody), pool), expected);
    host_buffer<int> pinned(pool.next(), image.size());
    std::ranges::copy(pixels, pinned.write().begin());
    auto of_buffer = upload(before, matrix)
                         .and_then([&](auto x) { return upload_to(std::move(x), where, std::move(pinned), there); })
                         .and_then(download);
    EXPECT_EQ(sluice::sync(std::move(of_buffer), pool), expected);  // once: it consumes the buffer
    stream home = pool.next();
    tensor<int> x = sync_on(upload(before, matrix), home);
    upload_to(home, x, where, *owner, owner, there);
    EXPECT_EQ(contents(std::move(x), home), expected);
}

// Through one pinned block, through a block in parts, and through chunks; rows of which many are in a part, and rows
// longer than a part.
TEST_P(regions, large_uploads_and_downloads_arrive_unchanged) {
    struct sizes {
        shape whole;
        region where;
    };
    const sizes all[] = {{{900, 300}, {{10, 20}, {700, 251}}},
                         {{1200, 1100}, {{1, 3}, {1100, 1001}}},
                         {{4, 700'001}, {{1, 5}, {3, 600'003}}},
                         {{2, 3'000'000}, {{0, 7}, {2, 2'500'001}}}};
    for (const auto& [whole, where] : all) {
        const auto before = numbers(whole.size());
        const auto values = numbers(whole.size(), 7);
        const auto expected = placed(before, whole, where, taken(values, whole, where));
        auto work = upload(before, whole)
                        .and_then([&](auto x) {
                            return upload_to(std::move(x), where, values, nullptr, {.whole = whole, .at = where.at});
                        })
                        .and_then(download_region(where));
        auto [x, some] = sync(std::move(work), pool);
        expect_equal(some, taken(expected, whole, where), where);
        expect_equal(sync(download(std::move(x)), pool), expected, where);
    }
}

TEST_P(regions, a_region_is_downloaded_and_its_tensor_stays) {
    const auto all = numbers(matrix.size());
    for (const region& where : rectangles()) {
        auto [x, some] = sync(upload(all, matrix).and_then(download_region(where)), pool);
        expect_equal(some, taken(all, matrix, where), where);
        expect_equal(sync(download(std::move(x)), pool), all, where);
        const shared_tensor<int> readable = sync(share(upload(all, matrix)), pool);
        expect_equal(sync(download_region(readable, where), pool), some, where);
    }
}

TEST_P(regions, a_download_to_a_region_of_host_memory_writes_nothing_else) {
    const auto all = numbers(matrix.size());
    const region where{.at = {3, 5}, .shape = {9, 20}};
    const shape image{40, 64};
    const host_layout there{.whole = image, .at = {7, 11}};
    const std::vector<int> blank(image.size(), -1);
    const auto expected = placed(blank, image, {there.at, where.shape}, taken(all, matrix, where));
    const auto source = sync(share(upload(all, matrix)), pool);

    host_buffer<int> pinned(pool.next(), image.size());
    std::ranges::fill(pinned.write(), -1);
    const host_buffer<int> filled = sync(download_to(source, where, std::move(pinned), there), pool);
    EXPECT_TRUE(std::ranges::equal(filled.read(), expected));

    auto room = std::make_shared<std::vector<int>>(blank);
    static_cast<void>(sync(download_to(source, where, *room, room, there), pool));
    EXPECT_EQ(*room, expected);

    *room = blank;
    auto [x, span] = sync(download_to(sync(upload(all, matrix), pool), where, *room, room, there), pool);
    EXPECT_EQ(*room, expected);
    EXPECT_EQ(span.data(), room->data());
    host_buffer<int> dense(pool.next(), where.shape.size());
    auto [again, packed] = sync(download_to(std::move(x), where, std::move(dense)), pool);
    EXPECT_TRUE(std::ranges::equal(packed.read(), taken(all, matrix, where)));
    EXPECT_EQ(sync(download(std::move(again)), pool), all);
}

TEST_P(regions, a_region_becomes_a_tensor_of_its_own) {
    const auto all = numbers(matrix.size());
    for (const region& where : rectangles()) {
        auto [x, made] = sync(upload(all, matrix).and_then(copy_region(where)), pool);
        EXPECT_EQ(made.shape(), where.shape);
        expect_equal(sync(download(std::move(made)), pool), taken(all, matrix, where), where);
        expect_equal(sync(download(std::move(x)), pool), all, where);
        const shared_tensor<int> readable = sync(share(upload(all, matrix)), pool);
        expect_equal(sync(copy_region(readable, where).and_then(download), pool), taken(all, matrix, where), where);
    }
}

TEST_P(regions, a_tensor_that_exists_is_copied_over) {
    const auto from = numbers(matrix.size(), 9000);
    auto both = zip(zeros<int>(matrix), upload(from, matrix)).and_then([](auto to, auto x) {
        return copy_to(std::move(to), std::move(x));
    });
    auto [to, x] = sync(std::move(both), pool);
    EXPECT_EQ(sync(download(std::move(to)), pool), from);
    const shared_tensor<int> readable(std::move(x));
    auto over = zeros<int>(matrix).and_then([=](auto y) { return copy_to(std::move(y), readable); }).and_then(download);
    EXPECT_EQ(sync(std::move(over), pool), from);
    stream home = pool.next();
    tensor<int> plain = sync_on(zeros<int>(matrix), home);
    copy_to(home, plain, *readable);
    EXPECT_EQ(contents(std::move(plain), home), from);
}

TEST_P(regions, a_part_is_copied_over_and_the_other_part_stays) {
    auto [low, high] = split<2>(sync(upload(numbers(1024)), pool));
    const shared_tensor<int> values = sync(share(upload(numbers(512, 70))), pool);
    low = sync(copy_to(std::move(low), values), pool);
    high = sync(copy_to(std::move(high), region{{500}, {12}}, values, region{{3}, {12}}), pool);
    auto expected = numbers(1024);
    std::iota(expected.begin(), expected.begin() + 512, 70);
    std::iota(expected.begin() + 1012, expected.end(), 73);
    EXPECT_EQ(sync(download(join(std::move(low), std::move(high))), pool), expected);
}

TEST_P(regions, a_region_is_copied_to_a_region_of_another_tensor) {
    const shape wide{21, 90};
    const auto before = numbers(wide.size());
    const auto source = numbers(matrix.size(), 40'000);
    for (const shape& extents : {shape{4, 16}, shape{1, 50}, shape{20, 1}, shape{0, 3}, shape{21, 53}}) {
        const region to{{21 - extents[0], 90 - extents[1]}, extents}, from{{37 - extents[0], 0}, extents};
        const auto expected = placed(before, wide, to, taken(source, matrix, from));
        auto work = zip(upload(before, wide), upload(source, matrix)).and_then([=](auto y, auto x) {
            return copy_to(std::move(y), to, std::move(x), from);
        });
        auto [y, x] = sync(std::move(work), pool);
        expect_equal(sync(download(std::move(y)), pool), expected, to);
        expect_equal(sync(download(std::move(x)), pool), source, from);
        stream home = pool.next();
        tensor<int> plain = sync_on(upload(before, wide), home);
        const tensor<int> read = sync_on(upload(source, matrix), home);
        copy_to(home, plain, to, read, from);
        expect_equal(contents(std::move(plain), home), expected, to);
    }
}

TEST_P(regions, a_whole_tensor_is_copied_to_a_region_and_a_region_to_a_whole_tensor) {
    const region where{.at = {3, 5}, .shape = {9, 20}};
    const auto before = numbers(matrix.size());
    const auto values = numbers(where.shape.size(), 5000);
    const shared_tensor<int> small = sync(share(upload(values, where.shape)), pool);
    const shared_tensor<int> large = sync(share(upload(before, matrix)), pool);
    auto to_region =
        upload(before, matrix).and_then([=](auto y) { return copy_to(std::move(y), where, small); }).and_then(download);
    EXPECT_EQ(sync(std::move(to_region), pool), placed(before, matrix, where, values));
    auto to_whole = zeros<int>(where.shape)
                        .and_then([=](auto y) { return copy_to(std::move(y), large, where); })
                        .and_then(download);
    EXPECT_EQ(sync(std::move(to_whole), pool), taken(before, matrix, where));
}

TEST_P(regions, a_rectangle_moves_within_its_tensor) {
    const auto before = numbers(matrix.size());
    const std::pair<region, region> moves[] = {{{{2, 3}, {4, 5}}, {{6, 3}, {4, 5}}},
                                               {{{2, 3}, {4, 5}}, {{2, 8}, {4, 5}}},
                                               {{{30, 0}, {7, 53}}, {{0, 0}, {7, 53}}}};
    for (const auto& move : moves) {
        const region to = move.first, from = move.second;
        auto work = upload(before, matrix)
                        .and_then([=](auto x) { return copy_within(std::move(x), to, from); })
                        .and_then(download);
        expect_equal(sync(std::move(work), pool), placed(before, matrix, to, taken(before, matrix, from)), to);
    }
}

TEST_P(regions, random_boxes_of_up_to_four_dimensions_are_copied) {
    std::mt19937 random(7);
    const auto draw = [&](std::size_t least, std::size_t most) { return least + random() % (most - least + 1); };
    for (int round = 0; round < 60; ++round) {
        const std::size_t rank = draw(1, 4);
        std::array<std::size_t, 4> from_shape{}, to_shape{}, extents{};
        region from{}, to{};
        for (std::size_t i = 0; i < rank; ++i) {
            extents[i] = draw(1, 5);
            // Often the whole dimension, on one side or both: such dimensions become one.
            from_shape[i] = extents[i] + (draw(0, 1) == 0 ? 0 : draw(0, 3));
            to_shape[i] = extents[i] + (draw(0, 1) == 0 ? 0 : draw(0, 3));
            from.at[i] = draw(0, from_shape[i] - extents[i]);
            to.at[i] = draw(0, to_shape[i] - extents[i]);
        }
        const auto shape_of = [rank](const std::array<std::size_t, 4>& all) {
            return shape(std::span<const std::size_t>(all).first(rank));
        };
        const shape source = shape_of(from_shape), target = shape_of(to_shape);
        from.shape = to.shape = shape_of(extents);
        const auto values = numbers(source.size(), 1000), before = numbers(target.size());
        const auto expected = placed(before, target, to, taken(values, source, from));
        const shared_tensor<int> x = sync(share(upload(values, source)), pool);
        auto copied = upload(before, target)
                          .and_then([=](auto y) { return copy_to(std::move(y), to, x, from); })
                          .and_then(download);
        expect_equal(sync(std::move(copied), pool), expected, to);
        const host_layout there{.whole = source, .at = from.at};
        auto uploaded = upload(before, target)
                            .and_then([=](auto y) { return upload_to(std::move(y), to, values, there); })
                            .and_then(download);
        expect_equal(sync(std::move(uploaded), pool), expected, to);
        expect_equal(sync(download_region(x, from), pool), taken(values, source, from), from);
    }
}

TEST_P(regions, another_stream_waits_for_the_copy_to_a_region) {
    NEEDS_A_GATE();
    stream home = pool.next(), elsewhere = pool.next();
    const region where{.at = {1, 2}, .shape = {3, 4}};
    // Pinned, so that no copy blocks this thread, which opens the gate.
    host_buffer<int> room(elsewhere, where.shape.size());
    host_buffer<int> values(home, where.shape.size());
    std::ranges::fill(values.write(), 8);
    tensor<int> x = sync_on(zeros<int>({10, 10}), home);
    gate held(home);
    x = submit_to(home, upload_to(std::move(x), where, std::move(values)));
    auto reading = spawn_on(elsewhere, download_to(std::move(x), where, std::move(room)));
    held.open();
    auto [again, filled] = std::move(reading).get();
    EXPECT_TRUE(std::ranges::equal(filled.read(), std::vector<int>(12, 8)));
}

TEST_P(regions, a_region_that_is_not_inside_is_refused_with_the_sizes) {
    stream home = pool.next();
    const auto made = [&] { return tensor<int>(home, {5, 10}); };
    const std::vector<int> values(64);
    for (const region& where : {region{{2, 8}, {4, 16}}, region{{5, 10}, {1, 1}}, region{{}, {6, 1}},
                                region{{0, 0, 1}, {2, 2}}, region{{~std::size_t{0}, 0}, {2, 2}}}) {
        const std::string name = to_string(where);
        const std::vector<int> own(where.shape.size());
        expect_refused(errc::shape_mismatch, {name, "[5, 10]"}, [&] { return upload_to(made(), where, own); });
        expect_refused(errc::shape_mismatch, {name, "[5, 10]"}, [&] { return download_region(made(), where); });
        expect_refused(errc::shape_mismatch, {name, "[5, 10]"}, [&] { return copy_region(made(), where); });
        expect_refused(errc::shape_mismatch, {name, "[5, 10]"},
                       [&] { return copy_to(made(), where, tensor<int>(home, where.shape)); });
    }
    expect_refused(errc::shape_mismatch, {"[2] at [0]", "[5, 10]"},
                   [&] { return copy_region(made(), region{.shape = {2}}); });
    const region inside{.at = {1, 1}, .shape = {2, 3}};
    expect_refused(errc::shape_mismatch, {"64", "[2, 3]"}, [&] { return upload_to(made(), inside, values); });
    expect_refused(errc::shape_mismatch, {"64", "[9, 7]"},
                   [&] { return upload_to(made(), inside, values, {.whole = {9, 7}}); });
    expect_refused(errc::shape_mismatch, {"[2, 3] at [7, 0]", "[8, 8]"},
                   [&] { return upload_to(made(), inside, values, {.whole = {8, 8}, .at = {7, 0}}); });
    expect_refused(errc::shape_mismatch, {"7", "[2, 3]"},
                   [&] { return download_to(made(), inside, host_buffer<int>(home, 7)); });
    expect_refused(errc::shape_mismatch, {"[2, 3]", "[5, 10]"}, [&] { return copy_to(made(), made(), inside); });
    tensor<int> to = made();
    expect_refused_here(errc::shape_mismatch, {"[2, 3]", "[3, 2]"},
                        [&] { copy_to(home, to, inside, made(), region{.shape = {3, 2}}); });
}

TEST_P(regions, moved_tensors_overlapping_regions_and_memory_without_an_owner_are_refused) {
    stream home = pool.next();
    tensor<int> x(home, {5, 10});
    const region where{.at = {1, 1}, .shape = {2, 3}};
    const std::vector<int> values(6);
    tensor<int> gone = std::move(x);
    x = std::move(gone);
    expect_refused(errc::invalid_argument, {"moved"}, [&] { return upload_to(std::move(gone), where, values); });
    expect_refused(errc::invalid_argument, {"moved"}, [&] { return download_region(std::move(gone), where); });
    expect_refused(errc::invalid_argument, {"moved"}, [&] { return copy_region(std::move(gone), where); });
    expect_refused(errc::invalid_argument, {"moved"}, [&] { copy_to(home, x, gone); });
    expect_refused(errc::invalid_argument, {"moved"}, [&] { copy_to(home, gone, x); });
    expect_refused(errc::invalid_argument, {"overlap", "[2, 3] at [1, 1]", "[2, 3] at [2, 3]"},
                   [&] { copy_to(home, x, region{{2, 3}, {2, 3}}, x, where); });
    expect_refused(errc::invalid_argument, {"overlap"}, [&] { return copy_within(std::move(x), where, where); });
    std::vector<int> room(6);
    expect_refused(errc::invalid_argument, {"owner"},
                   [&] { return download_to(tensor<int>(home, {5, 10}), where, room, nullptr); });
}

TEST_P(regions, a_tensor_of_another_device_is_refused) {
    single_stream elsewhere(other_device());
    const shared_tensor<int> there = sluice::sync(share(zeros<int>({5, 10})), elsewhere);
    const region where{.at = {1, 1}, .shape = {2, 3}};
    expect_refused(errc::invalid_argument, {"memory of"},
                   [&] { return sluice::sync(copy_region(there, where), pool); });
}

TEST_P(regions, a_stream_refuses_rows_that_overlap_and_copies_without_rows) {
    stream home = pool.next();
    const tensor<int> x = sync_on(zeros<int>({8, 8}), home), y = sync_on(zeros<int>({8, 8}), home);
    const std::array accesses{memory_access{y.memory(), access_mode::read},
                              memory_access{x.memory(), access_mode::write}};
    const auto copied = [&](const copied_rows& rows) {
        home.copy({"rows", accesses},
                  {x.device_data(), y.device_data(), 16, copy_direction::device_to_device, {}, nullptr, rows});
    };
    expect_refused(errc::invalid_argument, {"16 bytes", "15"}, [&] { copied({2, 15, 32}); });
    expect_refused(errc::invalid_argument, {"16 bytes", "0"}, [&] { copied({2, 16, 0}); });
    expect_refused(errc::invalid_argument, {"at least one row"}, [&] { copied({0, 16, 16}); });
    copied({2, 16, 32});
}

}  // namespace sluice::conformance::region_tests
