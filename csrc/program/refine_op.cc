#include "program/refine_op.h"

#include <algorithm>
#include <cstring>

#include "core/arena.h"
#include "linear/layout.h"

namespace pelton {
namespace {

constexpr int64_t kStripsPerItem = 32;
constexpr size_t kCacheLine = 64;

size_t pair_bytes(int64_t row_size, int64_t max_rows) {
  return round_up(activation_size_bytes(ActivationKind::Int8Pair, max_rows, row_size), kCacheLine);
}

size_t gathered_bytes(int64_t row_size, int64_t max_rows) {
  return round_up(activation_size_bytes(ActivationKind::Int8, max_rows, row_size), kCacheLine);
}

// Row `to_row` of `to` becomes the second term of row `from_row` of `pairs`.
void copy_second_term(const Activation& pairs, int64_t from_row, const Activation& to, int64_t to_row) {
  const int64_t num_slabs = (to.row_size + kSlabSize - 1) / kSlabSize;
  for (int64_t slab = 0; slab < num_slabs; ++slab) {
    const int64_t from_place = slab * pairs.num_rows + 2 * from_row + 1;
    const int64_t to_place = slab * to.num_rows + to_row;
    const auto* values = static_cast<const int8_t*>(pairs.values) + from_place * kSlabSize;
    std::copy_n(values, kSlabSize, static_cast<int8_t*>(to.values) + to_place * kSlabSize);
    to.scales[to_place] = pairs.scales[from_place];
    std::copy_n(pairs.shifts + from_place * kSlabTiles, kSlabTiles, to.shifts + to_place * kSlabTiles);
    std::copy_n(pairs.sums32 + from_place * kSlabTiles, kSlabTiles, to.sums32 + to_place * kSlabTiles);
    std::copy_n(pairs.sums16 + from_place * 2 * kSlabTiles, 2 * kSlabTiles, to.sums16 + to_place * 2 * kSlabTiles);
  }
}

}  // namespace

size_t refine_bytes(int64_t num_outputs, int64_t num_parts, int64_t row_size, int64_t max_rows) {
  const int64_t most_strips = num_outputs / kStripChannels + num_parts;
  return pair_bytes(row_size, max_rows) + sizeof(float) * static_cast<size_t>(most_strips * max_rows);
}

size_t refine_scratch_bytes(int64_t row_size, int64_t max_rows) {
  return round_up(linear_scratch_bytes(max_rows), kCacheLine) + gathered_bytes(row_size, max_rows) +
         sizeof(float) * kStripChannels * static_cast<size_t>(max_rows);
}

RefineOp::RefineOp(RowAxis axis, std::vector<PackedMatrix> parts, Rows x, Rows y, int64_t max_rows, uint8_t* memory)
    : axis_(axis), parts_(std::move(parts)), x_(x), y_(y), row_size_(parts_.at(0).row_size), pairs_(memory) {
  for (const PackedMatrix& part : parts_) num_strips_ += part.num_strips;
  largest_ = reinterpret_cast<float*>(memory + pair_bytes(row_size_, max_rows));
}

RefineOp::Place RefineOp::place_of(int64_t strip) const {
  int64_t first_column = 0;
  const PackedMatrix* part = parts_.data();
  for (; strip >= part->num_strips; ++part) {
    strip -= part->num_strips;
    first_column += part->num_rows;
  }
  const int64_t channel = strip * kStripChannels;
  return {part, strip, first_column + channel, std::min<int64_t>(kStripChannels, part->num_rows - channel)};
}

void RefineOp::find_largest(int64_t num_rows, Worker& worker) const {
  worker.claim((num_strips_ + kStripsPerItem - 1) / kStripsPerItem, [&](int64_t item) {
    const int64_t end = std::min(num_strips_, (item + 1) * kStripsPerItem);
    for (int64_t strip = item * kStripsPerItem; strip < end; ++strip) {
      const Place place = place_of(strip);
      for (int64_t row = 0; row < num_rows; ++row) {
        const float* y = y_.row(row) + place.first_column;
        float largest[16];
        std::fill_n(largest, 16, y[0]);
        int64_t i = 0;
        for (; i + 16 <= place.num_columns; i += 16) {
          for (int lane = 0; lane < 16; ++lane) largest[lane] = std::max(largest[lane], y[i + lane]);
        }
        for (; i < place.num_columns; ++i) largest[0] = std::max(largest[0], y[i]);
        largest_[strip * num_rows + row] = *std::max_element(largest, largest + 16);
      }
    }
  });
}

void RefineOp::refine_strip(const Place& place, const Activation& pairs, const std::vector<int32_t>& rows,
                            void* scratch) const {
  const auto count = static_cast<int64_t>(rows.size()), max_rows = pairs.num_rows / 2;
  uint8_t* gathered = static_cast<uint8_t*>(scratch) + round_up(linear_scratch_bytes(max_rows), kCacheLine);
  auto* products = reinterpret_cast<float*>(gathered + gathered_bytes(row_size_, max_rows));
  const Activation x = make_activation(ActivationKind::Int8, count, row_size_, gathered);
  for (int64_t i = 0; i < count; ++i) copy_second_term(pairs, rows[static_cast<size_t>(i)], x, i);
  PackedMatrix one = *place.matrix;
  one.num_rows = place.num_columns;
  one.num_strips = 1;
  one.data += place.strip * one.strip_bytes;
  linear_strip(Linear{&one, x, nullptr, nullptr, 0, products, kStripChannels, {}}, 0, scratch);
  for (int64_t i = 0; i < count; ++i) {
    float* y = y_.row(rows[static_cast<size_t>(i)]) + place.first_column;
    for (int64_t column = 0; column < place.num_columns; ++column) y[column] += products[i * kStripChannels + column];
  }
}

void RefineOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  if (num_rows == 0) return;
  const Activation pairs = make_activation(ActivationKind::Int8Pair, num_rows, row_size_, pairs_);
  const Share share = worker.share(num_rows);
  quantize_rows(pairs, x_.data, x_.stride, share.begin, share.end);
  find_largest(num_rows, worker);
  worker.pool.barrier();
  thread_local std::vector<float> bounds;
  thread_local std::vector<int32_t> rows;
  bounds.assign(static_cast<size_t>(num_rows), -__builtin_inff());
  for (int64_t strip = 0; strip < num_strips_; ++strip) {
    for (int64_t row = 0; row < num_rows; ++row) {
      float& bound = bounds[static_cast<size_t>(row)];
      bound = std::max(bound, largest_[strip * num_rows + row] - kRefinedRange);
    }
  }
  worker.claim((num_strips_ + kStripsPerItem - 1) / kStripsPerItem, [&](int64_t item) {
    const int64_t end = std::min(num_strips_, (item + 1) * kStripsPerItem);
    for (int64_t strip = item * kStripsPerItem; strip < end; ++strip) {
      rows.clear();
      for (int64_t row = 0; row < num_rows; ++row) {
        const bool is_likely = largest_[strip * num_rows + row] >= bounds[static_cast<size_t>(row)];
        if (is_likely) rows.push_back(static_cast<int32_t>(row));
      }
      if (!rows.empty()) refine_strip(place_of(strip), pairs, rows, worker.scratch);
    }
  });
}

}  // namespace pelton
