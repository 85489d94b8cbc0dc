"""The quantiser during training: codebooks that follow the latents as running means.

Learned from failures (see benchmarks/LOG.md): latents must be centred and scaled before they are quantised, or the
books collapse; each dimension needs a scale of its own, and dimensions must not be correlated, or a few of them take up
all books; books start from real latents; an entry that is not used moves to a recent latent. The centres fold into the
first book and the scales into the projection before the books, so the learned quantiser is an ordinary one.

Everything can be captured: no branch on a tensor's value, no host read. A step only measures; `renew` makes new books
from the measurements, so that a team can average them in between.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import Books, SplitQuantiser

DECAY = 0.99
MEASURE_DECAY = 0.9  # of the running centre and scale: about ten batches, enough against noise and still recent
DEAD = 0.02  # of an even share of the latents
LEAST_SPREAD, SPREAD_POWER = 0.2, 0.25
"""How `spread_out` rescales: a dimension of variance v, relative to the largest, gets the standard deviation v **
SPREAD_POWER, at least LEAST_SPREAD. A power of 0.5 would change nothing; with 0 all dimensions would count the same."""


class LearningBooks(nn.Module):
    """Residual codebooks for latents [M, width] scaled to 1."""

    books: Tensor
    sums: Tensor
    counts: Tensor
    newcomers: Tensor

    def __init__(self, books: int, codes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("books", torch.zeros(books, codes, width))
        self.register_buffer("sums", torch.zeros(books, codes, width))
        self.register_buffer("counts", torch.ones(books, codes))
        # a recent latent for each entry, which replaces an entry that is not used
        self.register_buffer("newcomers", torch.zeros(books, codes, width), persistent=False)

    def forward(self, latent: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
        """latent [M, width], used [M, n] 1 or 0 -> the sum of the used entries, and the commitment loss."""
        rest, norms = latent.detach(), self.books.square().sum(-1)
        rests, nearest, entries = [], [], []
        for book, norm in zip(self.books, norms, strict=True):
            rests.append(rest)
            nearest.append(torch.addmm(norm, rest, book.T, alpha=-2).argmin(-1))
            entries.append(F.embedding(nearest[-1], book))
            rest = rest - entries[-1]
        before, chosen, mask = torch.stack(rests), torch.stack(entries), used.T
        if self.training:
            self._follow(before, torch.stack(nearest))
        left = before - chosen + (latent - latent.detach())  # the gradient of every remainder is that of the latent
        loss = (left.square().mean(-1) * mask).mean(-1).sum()
        found = (chosen * mask[..., None]).sum(0)
        return latent + (found - latent).detach(), loss

    @torch.no_grad()
    def _follow(self, before: Tensor, nearest: Tensor) -> None:
        """Update the running means of all n books at once: remainders [n, M, width], their nearest entries [n, M]."""
        books, codes, width = self.books.shape
        rows = (nearest + codes * torch.arange(books, device=before.device)[:, None]).flatten()
        share = torch.full_like(rows, 1 - DECAY, dtype=before.dtype)
        self.counts.mul_(DECAY).view(-1).index_add_(0, rows, share)
        self.sums.mul_(DECAY).view(-1, width).index_add_(0, rows, before.flatten(0, 1) * (1 - DECAY))
        picked = torch.randint(before.shape[1], (books, codes, 1), device=before.device)
        self.newcomers.copy_(before.gather(1, picked.expand(-1, -1, width)))

    @torch.no_grad()
    def renew(self) -> None:
        """The running means become the books; newcomers replace entries that are rarely used. Books that stay are as
        they are."""
        if not self.training:
            return
        share = self.counts.sum(-1, keepdim=True) / self.counts.shape[1]
        dead = self.counts < DEAD * share
        self.counts.copy_(torch.where(dead, 0.2 * share, self.counts))
        self.sums.copy_(torch.where(dead[..., None], self.newcomers * 0.2 * share[..., None], self.sums))
        self.books.copy_(self.sums / self.counts[..., None].clamp(min=1e-6))

    @torch.no_grad()
    def start(self, latent: Tensor, rounds: int = 12) -> None:
        """Start the books by k-means on latents [M, width], each on what the ones before it left over."""
        rest, size = latent, self.books.shape[1]
        for index in range(self.books.shape[0]):
            book = rest[torch.randint(len(rest), (size,), device=rest.device)].clone()
            for _ in range(rounds):
                nearest = _nearest(rest, book)
                counts = torch.zeros(size, device=rest.device).index_add_(0, nearest, torch.ones_like(rest[:, 0]))
                means = torch.zeros_like(book).index_add_(0, nearest, rest) / counts.clamp(min=1)[:, None]
                strays = rest[torch.randint(len(rest), (size,), device=rest.device)]
                book = torch.where(counts[:, None] > 0, means, strays)
            self.books[index] = book
            rest = rest - book[_nearest(rest, book)]
        self.counts.fill_(1.0)
        self.sums.copy_(self.books)

    def used(self) -> list[int]:
        """Entries of each book with at least a tenth of an even share."""
        share = self.counts.sum(-1, keepdim=True) / self.counts.shape[1]
        return (self.counts > 0.1 * share).sum(-1).tolist()


class LearningQuantiser(nn.Module):
    """Latents of the encoder -> quantised latents for the decoder, through both halves of the split."""

    centres: Tensor
    sizes: Tensor
    spreads: Tensor
    trust: Tensor

    def __init__(self, groups: int, codes: int, width: int) -> None:
        super().__init__()
        self.leading = LearningBooks(1, codes, width)
        self.residual = LearningBooks(groups - 1, codes, width)
        # for each half: the running centre of its latents, the divisor of each dimension, and its scale after division
        self.register_buffer("centres", torch.zeros(2, width))
        self.register_buffer("sizes", torch.ones(2, width))
        self.register_buffer("spreads", torch.ones(2, width))
        # weight of the running centre and scale during training, 0 to 1: see `_held`
        self.register_buffer("trust", torch.zeros(()), persistent=False)

    def forward(
        self, latent: Tensor, into: SplitQuantiser, out: SplitQuantiser, shorter: float, bypass: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """latent [B, T, encoder width] -> quantised [B, T, decoder width], the entries of the leading book [B, T, book
        width], the commitment loss, and the correlation between dimensions."""
        latent = latent.float()
        rows = latent.shape[0] * latent.shape[1]
        loss, alike, halves, entries = latent.new_zeros(()), latent.new_zeros(()), [], []
        for index, (books, before, after) in enumerate(self._halves(into, out)):
            projected = F.linear(latent, before.into.weight).view(rows, -1)
            flat, own = self._held(index, projected)
            if self.training:
                alike = alike + _correlation(own / self.spreads[index])
            if not bypass:
                flat, half_loss = books(flat, self._mask(books, latent, shorter))
                loss = loss + half_loss
            entries.append(flat.view(*latent.shape[:2], -1))
            # add the centre, which will be folded into the first book
            flat = flat + self.centres[index] / self.sizes[index]
            halves.append(F.linear(flat.view(*latent.shape[:2], -1), after.out.weight))
        return halves[0] + halves[1], entries[0], loss, alike

    def measured(self) -> list[Tensor]:
        """The tensors that a team averages before it renews its books."""
        halves = (self.leading, self.residual)
        return [self.centres, self.sizes, *(t for books in halves for t in (books.sums, books.counts))]

    def newcomers(self) -> list[Tensor]:
        """The tensors that a team copies from its leader before it renews its books."""
        return [self.leading.newcomers, self.residual.newcomers]

    def renew(self) -> None:
        self.leading.renew()
        self.residual.renew()

    def keep_books(self) -> None:
        """From now on the books stay. Latents are still centred and scaled: without that they grew to forty times the
        size of the entries."""
        self.leading.eval()
        self.residual.eval()

    def _held(self, index: int, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Latents [M, width], centred and scaled: by the running values, and by those of this batch.

        During training, gradients are those of the batch's own centre and scale, which keep the latents in place. But
        these values are noisy, because a batch has few speakers: they differ between batches by more than the last
        books code. The running values are less noisy but lag while latents move fast, so their weight (`trust`) rises
        during training.
        """
        known = (projected - self.centres[index]) / self.sizes[index]
        if not self.training:
            return known, known
        centre = projected.mean(0)
        size = ((projected - centre).square().mean(0).sqrt() + 1e-5) / self.spreads[index]
        own = (projected - centre) / size
        self.centres[index].lerp_(centre.detach(), 1 - MEASURE_DECAY)
        self.sizes[index].lerp_(size.detach(), 1 - MEASURE_DECAY)
        return own + self.trust * (known - own).detach(), own

    def _mask(self, books: LearningBooks, latent: Tensor, shorter: float) -> Tensor:
        """[B * T, n]: some examples use only the first few residual books; the leading book is always used."""
        batch, frames, count = latent.shape[0], latent.shape[1], books.books.shape[0]
        chance = torch.rand(2, batch, device=latent.device)
        last = torch.where(chance[0] < shorter, (chance[1] * count).floor(), count)
        used = (torch.arange(count, device=latent.device) <= last[:, None]).float()
        return used[:, None].expand(batch, frames, count).reshape(batch * frames, count)

    def _halves(self, into: SplitQuantiser, out: SplitQuantiser) -> list[tuple[LearningBooks, Books, Books]]:
        return [(self.leading, into.leading, out.leading), (self.residual, into.residual, out.residual)]

    @torch.no_grad()
    def start(self, latent: Tensor, into: SplitQuantiser) -> None:
        """Start the books from many frames of latent [..., encoder width]."""
        for index, (books, before, _) in enumerate(self._halves(into, into)):
            projected = F.linear(latent.float(), before.into.weight).flatten(0, -2)
            books.start((projected - self.centres[index]) / self.sizes[index])

    @torch.no_grad()
    def adopt(self, latent: Tensor, into: SplitQuantiser) -> None:
        """Continue training from finished books. Their centre becomes the mean of latent [..., encoder width].

        They are not rescaled, so that `settle` gives the same books back.
        """
        for index, (books, before, _) in enumerate(self._halves(into, into)):
            projected = F.linear(latent.float(), before.into.weight).flatten(0, -2)
            centre = projected.mean(0)
            self.centres[index], self.sizes[index] = centre, 1.0
            self.spreads[index] = (projected - centre).square().mean(0).sqrt()
            books.books.copy_(before.books)
            books.books[0] -= centre
            books.counts.fill_(1.0)
            books.sums.copy_(books.books)

    @torch.no_grad()
    def spread_out(self, latent: Tensor, into: SplitQuantiser, out: SplitQuantiser) -> None:
        """Rotate the residual latents so that their dimensions are uncorrelated, and bring their scales closer
        together.

        Encoder and decoder stay consistent; only the residual books start anew, from many frames of latent [...,
        encoder width].
        """
        before, after = into.residual, out.residual
        projected = F.linear(latent.float(), before.into.weight).flatten(0, -2)
        centred = projected - projected.mean(0)
        variance, turn = torch.linalg.eigh(centred.T @ centred / len(projected))
        variance = variance.clamp(min=1e-9 * float(variance[-1]))
        wanted = (variance / variance[-1]).pow(SPREAD_POWER).clamp(min=LEAST_SPREAD)
        wanted = wanted / wanted.square().mean().sqrt()
        factors = variance.sqrt() / wanted  # the divisor of each rotated dimension
        after.out.weight.copy_(after.out.weight / self.sizes[1] @ turn * factors)
        before.into.weight.copy_(turn.T @ before.into.weight / factors[:, None])
        self.centres[1] = projected.mean(0) @ turn / factors
        self.sizes[1] = 1.0
        self.spreads[1] = wanted
        self.residual.start((projected @ turn / factors) - self.centres[1])

    @torch.no_grad()
    def settle(self, into: SplitQuantiser, out: SplitQuantiser) -> None:
        """Write the books into encoder and decoder, with centre and scale folded in."""
        for index, (books, before, after) in enumerate(self._halves(into, out)):
            before.into.weight.div_(self.sizes[index][:, None])
            for half in (before, after):
                half.books.copy_(books.books)
                half.books[0] += self.centres[index] / self.sizes[index]


def _correlation(flat: Tensor) -> Tensor:
    """Mean squared correlation between different dimensions of [M, width], which are centred and scaled to 1."""
    width = flat.shape[1]
    squares = (flat.T @ flat / len(flat)).square()
    return (squares.sum() - squares.diagonal().sum()) / (width * (width - 1))


def _nearest(latent: Tensor, book: Tensor) -> Tensor:
    """Latents [M, width], book [codes, width] -> the index of the nearest entry [M]."""
    return (book.square().sum(-1) - 2 * latent @ book.T).argmin(-1)
