// Tensors for tests: random numbers, every kind of strides, memory whose ends are guarded, and comparison.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <headwise/element.hpp>
#include <headwise/target.hpp>
#include <headwise/tensor_view.hpp>

namespace tensors {

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every platform.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits()
    {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    /// 0 <= x < 1.
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

    /// Mean 0, variance 1, nearly normal: at most 3.5.
    double normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * std::sqrt(3.0); }

    /// 0 .. n - 1.
    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }

    bool chance(double probability) { return uniform() < probability; }

private:
    std::uint64_t state_;
};

/// The tokens first ... first + count - 1 of a tensor (batch, heads, tokens, width).
template <class T>
headwise::TensorView<T, 4> tokens_of(headwise::TensorView<T, 4> view, std::int64_t first, std::int64_t count)
{
    view.data += first * view.strides[2];
    view.shape[2] = count;
    return view;
}

/// Bytes that end where a page begins that cannot be touched; another such page lies before them.
class GuardedMemory {
public:
    explicit GuardedMemory(std::size_t bytes)
    {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        usable_ = (bytes + page) / page * page;  // one byte or more of slack, so that there is a front canary
        mapped_ = usable_ + 2 * page;
        void* const at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        begin_ = static_cast<std::byte*>(at) + page;
        if (mprotect(begin_, usable_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        page_ = page;
    }
    ~GuardedMemory() { munmap(begin_ - page_, mapped_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    std::byte* begin() const { return begin_; }
    std::byte* end() const { return begin_ + usable_; }

private:
    std::byte* begin_;
    std::size_t usable_;
    std::size_t mapped_;
    std::size_t page_;
};

/// How the elements of a tensor lie in memory.
enum class Layout {
    dense,         ///< row-major
    tokens_first,  ///< row-major with the third and second last dimensions swapped: (b, n, h, d)
    transposed,    ///< row-major with the last two dimensions swapped
    padded,        ///< three elements between rows
    spread,        ///< last stride 2
    backwards,     ///< rows in falling order
    mirrored,      ///< every stride negative
    misaligned,    ///< dense, one element off the alignment it would have had
    repeated,      ///< one row for all: the second last stride is 0; for inputs only, and not among `layouts`
};
inline constexpr std::array layouts{Layout::dense,  Layout::tokens_first, Layout::transposed, Layout::padded,
                                    Layout::spread, Layout::backwards,    Layout::mirrored,   Layout::misaligned};

/// What follows a tensor's last element.
enum class End {
    guard,    ///< a page that cannot be touched: for inputs
    canaries  ///< 64 bytes or more of canaries, then the page; begins at a multiple of 64 bytes: for outputs
};

/// Strides of a layout, the elements it spans and where among them index (0, ..., 0) is.
template <std::size_t Rank>
struct Placement {
    std::array<std::int64_t, Rank> strides{};
    std::int64_t span = 1;
    std::int64_t first = 0;

    Placement(const std::array<std::int64_t, Rank>& shape, Layout layout)
    {
        std::array<std::size_t, Rank> order{};
        for (std::size_t r = 0; r < Rank; ++r) order[r] = r;
        if constexpr (Rank >= 3)
            if (layout == Layout::tokens_first) std::swap(order[Rank - 2], order[Rank - 3]);
        if constexpr (Rank >= 2)
            if (layout == Layout::transposed) std::swap(order[Rank - 1], order[Rank - 2]);
        std::int64_t stride = layout == Layout::spread ? 2 : 1;
        for (std::size_t r = Rank; r-- > 0;) {
            strides[order[r]] = stride;
            stride *= std::max<std::int64_t>(shape[order[r]], 1);
            if (layout == Layout::padded && r == Rank - 1) stride += 3;
        }
        if constexpr (Rank >= 2)
            if (layout == Layout::repeated) strides[Rank - 2] = 0;
        for (std::size_t r = 0; r < Rank; ++r) {
            if (shape[r] == 0) span = 0;
            const std::int64_t reach = (std::max<std::int64_t>(shape[r], 1) - 1) * strides[r];
            if (span > 0) span += reach;
            if (layout == Layout::mirrored || (layout == Layout::backwards && r + 2 == Rank)) {
                first += reach;
                strides[r] = -strides[r];
            }
        }
        if (span == 0) first = 0;
    }
};

/// visit(index) for every index of `shape`, the last dimension fastest.
template <std::size_t Rank, class Visit>
void for_each_index(const std::array<std::int64_t, Rank>& shape, const Visit& visit)
{
    for (const std::int64_t extent : shape)
        if (extent == 0) return;
    std::array<std::int64_t, Rank> index{};
    for (;;) {
        visit(index);
        std::size_t r = Rank;
        while (r > 0 && ++index[r - 1] == shape[r - 1]) index[--r] = 0;
        if (r == 0) return;
    }
}

template <class T, int Rank, std::size_t Size>
T& at(const headwise::TensorView<T, Rank>& view, const std::array<std::int64_t, Size>& index)
{
    static_assert(Size == Rank);
    std::int64_t offset = 0;
    for (std::size_t r = 0; r < Size; ++r) offset += index[r] * view.strides[r];
    return view.data[offset];
}

/// The first batch item, without the batch dimension: (b, h, n, d) to (h, n, d).
template <class T>
headwise::TensorView<T, 3> heads_of(const headwise::TensorView<T, 4>& view)
{
    return {view.data,
            {view.shape[1], view.shape[2], view.shape[3]},
            {view.strides[1], view.strides[2], view.strides[3]}};
}

/// A tensor in guarded memory. What lies around and between its elements is NaN in inputs (End::guard) and a canary in
/// outputs; elements begin with the same bytes, so that one that was never written shows.
template <class T, int Rank>
class Tensor {
public:
    using Shape = std::array<std::int64_t, Rank>;

    explicit Tensor(const Shape& shape, Layout layout = Layout::dense, End end = End::guard)
        : shape_(shape), fill_(end == End::guard ? std::byte{0xff} : std::byte{0xfb})
    {
        const Placement<Rank> placement(shape, layout);
        strides_ = placement.strides;
        const std::size_t off = layout == Layout::misaligned ? sizeof(T) : 0;
        const std::size_t bytes = static_cast<std::size_t>(placement.span) * sizeof(T);
        std::size_t room = bytes + off;
        if (end == End::canaries) room = (bytes + 63) / 64 * 64 + 64 + off;
        memory_ = std::make_shared<GuardedMemory>(room);
        std::fill(memory_->begin(), memory_->end(), fill_);
        std::byte* const low = memory_->end() - room + (end == End::canaries ? 2 * off : 0);
        data_ = reinterpret_cast<T*>(low) + placement.first;
    }

    headwise::TensorView<T, Rank> view() const { return {data_, shape_, strides_}; }
    headwise::TensorView<const T, Rank> input() const { return {data_, shape_, strides_}; }
    const Shape& shape() const { return shape_; }

    /// Every byte that belongs to no element is as it was.
    bool intact_around() const
    {
        std::vector<std::byte> bytes(memory_->begin(), memory_->end());
        for_each_index(shape_, [&](const auto& index) {
            const auto* element = reinterpret_cast<const std::byte*>(&at(view(), index));
            std::fill_n(bytes.begin() + (element - memory_->begin()), sizeof(T), fill_);
        });
        return std::all_of(bytes.begin(), bytes.end(), [this](std::byte b) { return b == fill_; });
    }

    /// Nothing was written at all.
    bool untouched() const
    {
        return std::all_of(memory_->begin(), memory_->end(), [this](std::byte b) { return b == fill_; });
    }

private:
    Shape shape_;
    Shape strides_;
    std::byte fill_;
    std::shared_ptr<GuardedMemory> memory_;
    T* data_;
};

/// An element as a number to compare.
template <class T>
double number(T element)
{
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(element);
    else return static_cast<double>(static_cast<float>(element));
}

/// A number as an element.
template <class T>
T element(double number)
{
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(number);
    else return T(static_cast<float>(number));
}

/// Sets each element to make(index).
template <class T, int Rank, class Make>
void fill(const Tensor<T, Rank>& tensor, const Make& make)
{
    for_each_index(tensor.shape(), [&](const auto& index) { at(tensor.view(), index) = make(index); });
}

template <class T, int Rank>
void randomize(const Tensor<T, Rank>& tensor, Random& random, double deviation = 1)
{
    fill(tensor, [&](const auto&) { return element<T>(deviation * random.normal()); });
}

template <class T, int Rank>
Tensor<T, Rank> random_tensor(const std::array<std::int64_t, Rank>& shape, Random& random, double deviation = 1,
                              Layout layout = Layout::dense)
{
    Tensor<T, Rank> tensor(shape, layout);
    randomize(tensor, random, deviation);
    return tensor;
}

/// Largest |got - want|. Equal infinities differ by 0 and so do two NaNs; NaN or infinity in one only is infinity.
template <class T, class U, int Rank>
double max_error(const headwise::TensorView<T, Rank>& got, const headwise::TensorView<U, Rank>& want)
{
    double worst = got.shape == want.shape ? 0 : std::numeric_limits<double>::infinity();
    if (worst > 0) return worst;
    for_each_index(got.shape, [&](const auto& index) {
        const double a = number(at(got, index));
        const double b = number(at(want, index));
        if (a == b || (std::isnan(a) && std::isnan(b))) return;
        const double error = std::abs(a - b);
        worst = std::max(worst, std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
    });
    return worst;
}

/// Largest finite |element|, 0 where there is none.
template <class T, int Rank>
double max_magnitude(const headwise::TensorView<T, Rank>& view)
{
    double largest = 0;
    for_each_index(view.shape, [&](const auto& index) {
        const double x = std::abs(number(at(view, index)));
        if (std::isfinite(x)) largest = std::max(largest, x);
    });
    return largest;
}

template <class T, class U, int Rank>
bool same_bits(const headwise::TensorView<T, Rank>& a, const headwise::TensorView<U, Rank>& b)
{
    static_assert(sizeof(T) == sizeof(U));
    bool same = a.shape == b.shape;
    if (!same) return false;
    for_each_index(a.shape, [&](const auto& i) { same = same && std::memcmp(&at(a, i), &at(b, i), sizeof(T)) == 0; });
    return same;
}

/// Runs `test(target)` with each available target active, then the former one again.
template <class Test>
void for_each_target(const Test& test)
{
    struct Restore {
        headwise::Target former = headwise::active_target();
        ~Restore() { headwise::set_active_target(former); }
    };
    const Restore restore;
    for (const headwise::Target target : headwise::available_targets()) {
        headwise::set_active_target(target);
        test(target);
    }
}

}  // namespace tensors
