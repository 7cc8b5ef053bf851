#include "scratch.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace headwise {

namespace {

struct Piece {
    std::byte* memory;
    std::size_t bytes;
};

void free_piece(const Piece& piece) noexcept
{
    ::operator delete(piece.memory, std::align_val_t{64});
}

/// The pieces of one thread that no Scratch holds, smallest first, and the bytes of all its pieces.
struct ThreadPieces {
    std::vector<Piece> idle;
    std::size_t bytes = 0;
    std::size_t count = 0;

    ~ThreadPieces() { clear(); }

    void clear() noexcept
    {
        for (const Piece& piece : idle) {
            bytes -= piece.bytes;
            --count;
            free_piece(piece);
        }
        idle.clear();
    }
};

thread_local ThreadPieces pieces;

}  // namespace

Scratch::Scratch(std::size_t bytes)
{
    auto& idle = pieces.idle;
    const auto fits = std::find_if(idle.begin(), idle.end(), [&](const Piece& piece) { return piece.bytes >= bytes; });
    if (fits != idle.end()) {
        memory_ = fits->memory;
        bytes_ = fits->bytes;
        idle.erase(fits);
        return;
    }
    // No idle piece is large enough: the largest one gives way, so that a thread that grows keeps one piece, not many.
    if (!idle.empty()) {
        pieces.bytes -= idle.back().bytes;
        --pieces.count;
        free_piece(idle.back());
        idle.pop_back();
    }
    idle.reserve(pieces.count + 1);  // the destructor must not allocate
    memory_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
    bytes_ = bytes;
    pieces.bytes += bytes;
    ++pieces.count;
}

Scratch::~Scratch()
{
    const Piece piece{memory_, bytes_};
    auto& idle = pieces.idle;
    const auto place =
        std::find_if(idle.begin(), idle.end(), [&](const Piece& other) { return other.bytes > piece.bytes; });
    idle.insert(place, piece);
}

std::size_t thread_scratch_bytes() noexcept
{
    return pieces.bytes;
}

void release_thread_scratch() noexcept
{
    pieces.clear();
}

}  // namespace headwise
