"""Compiled loops of the season: one pass over all windows, whatever their length.

A window is a stretch of the circular clock. What it adds to the bins is known from its two ends
alone: with u_p the step that is one on the bins before p, the time in each bin up to position p + f
is width·((1 − f)·u_p + f·u_{p+1}). So a pass writes a few numbers a window, and one cumulative sum
at the end spreads them over the bins. Weeks are whole numbers, not loops.
"""

import math

import numpy as np

from observant.compiled import jit
from observant.estimation.kernels import decay, root

CHANGED, DATED = 1, 2


@jit
def reached(position, bins, theta, edges):
    """Integral of the intensity up to a position, both counted in bins."""
    whole = math.floor(position)
    cycle = math.floor(whole / bins)
    bin_ = int(whole - cycle * bins)
    return cycle * edges[bins] + edges[bin_] + theta[bin_] * (position - whole)


@jit
def sweep(
    offsets,
    kind,
    start,
    known,
    stop,
    start_zone,
    known_zone,
    stop_zone,
    theta,
    edges,
    zone_shift,
    width,
    level,
    refit,
    gradient,
    spread,
    crossing,
    zone_weight,
    curvature,
    with_curvature,
):
    """One pass: levels given the shape, log-likelihood, its gradient and information.

    Positions are in bins since the beginning of a cycle; `known` is where the part of the window
    begins that is known to be quiet (the date of the change, else the start). `zone_shift` is what
    changes of the clock add to the integral. Filled in, all as coefficients of the steps u_p:
    `gradient` (of log θ, without the factor θ), `spread` (of the information, matrix),
    `crossing` (a row a source: information between level and shape, last that of the level),
    `zone_weight` (what of the gradient belongs to `zone_shift`), `curvature` (diagonal information
    of dated windows). Returns the log-likelihood.
    """
    bins = len(theta)
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    t, hit = np.empty(longest), np.empty(longest)
    place, part = np.empty(5, np.int64), np.empty(5)
    rows = crossing.shape[0] > 0
    total = 0.0
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        if refit:
            level[i] = fitted_level(
                begin, end, kind, start, known, stop, start_zone, known_zone, stop_zone,
                theta, edges, zone_shift, width, level[i], t, hit,
            )  # fmt: skip
        rate = level[i]
        if not 0 < rate < math.inf:
            continue
        for k in range(begin, end):
            changed, dated = kind[k] & CHANGED, kind[k] & DATED
            first = known[k] if changed and dated else start[k]
            first_zone = known_zone[k] if changed and dated else start_zone[k]
            area = width * (
                reached(stop[k], bins, theta, edges) - reached(first, bins, theta, edges)
            ) + (zone_shift[stop_zone[k]] - zone_shift[first_zone])
            x = rate * max(area, 0.0)
            if changed and dated:
                whole = math.floor(first)
                bin_ = int(whole - math.floor(whole / bins) * bins)
                total += math.log(rate * theta[bin_]) - x
                score = -1.0
                # A count in one bin: the step to its right less the step to its left.
                gradient[bin_ + 1] += 1.0 / theta[bin_]
                gradient[bin_] -= 1.0 / theta[bin_]
            elif changed:
                m, e = decay(max(x, 1e-300))
                total += math.log(m)
                score = e / m
            else:
                total -= x
                score = -1.0
            # Coefficients of the window in the steps.
            ends_at(first, bins, width, -1.0, place, part, 0)
            ends_at(stop[k], bins, width, 1.0, place, part, 2)
            turn = math.floor(math.floor(stop[k]) / bins) - math.floor(math.floor(first) / bins)
            place[4], part[4] = bins, turn * width
            for a in range(5):
                gradient[place[a]] += score * rate * part[a]
            if stop_zone[k] != first_zone:
                zone_weight[stop_zone[k]] += score * rate
                zone_weight[first_zone] -= score * rate
            if not with_curvature:
                continue
            if dated:
                for a in range(5):
                    curvature[place[a]] += rate * part[a]
                    if rows:
                        crossing[i, place[a]] += rate * part[a]
                if rows:
                    crossing[i, bins + 1] += x
            else:
                # Fisher's information of a changed-or-not window, x² / (eˣ − 1) for log x.
                m, e = decay(max(x, 1e-300))
                weight = rate * rate * e / m
                for a in range(5):
                    spread[place[a], place[a]] += 0.5 * weight * part[a] * part[a]
                    for b in range(a):
                        spread[place[a], place[b]] += weight * part[a] * part[b]
                    if rows:
                        crossing[i, place[a]] += weight * (x / rate) * part[a]
                if rows:
                    crossing[i, bins + 1] += weight * (x / rate) * (x / rate)
    return total


@jit
def ends_at(position, bins, width, sign, place, part, at):
    """The two steps of an end of a window, and their coefficients."""
    whole = math.floor(position)
    bin_ = int(whole - math.floor(whole / bins) * bins)
    beyond = position - whole
    place[at], part[at] = bin_, sign * width * (1.0 - beyond)
    place[at + 1], part[at + 1] = bin_ + 1, sign * width * beyond


@jit
def fitted_level(
    begin, end, kind, start, known, stop, start_zone, known_zone, stop_zone,
    theta, edges, zone_shift, width, guess, t, hit,
):  # fmt: skip
    """Likeliest rate of one source in its own time, which runs as fast as the season.

    0 where it never changed, infinite where it changed at every visit: such sources say nothing
    about the shape.
    """
    bins = len(theta)
    undated, back, n = np.int64(0), end - begin, end - begin
    quiet, time, changes, dated_changes = 0.0, 0.0, 0.0, 0.0
    for k in range(begin, end):
        changed = 1.0 if kind[k] & CHANGED else 0.0
        area = width * (
            reached(stop[k], bins, theta, edges) - reached(start[k], bins, theta, edges)
        ) + (zone_shift[stop_zone[k]] - zone_shift[start_zone[k]])
        area = max(area, 1e-12)
        changes += changed
        time += area
        if kind[k] & DATED:
            back -= 1
            t[back] = area
            dated_changes += changed
            if changed:
                area = width * (
                    reached(stop[k], bins, theta, edges) - reached(known[k], bins, theta, edges)
                ) + (zone_shift[stop_zone[k]] - zone_shift[known_zone[k]])
            quiet += max(area, 0.0)
        else:
            t[undated] = area
            hit[undated] = changed
            undated += 1
            quiet += area * (1 - changed)
    if changes == 0 or n == 0:
        return 0.0
    if changes == n and dated_changes == 0:
        return math.inf
    if not 0 < guess < math.inf:
        guess = changes / (quiet + 0.5 * (changes - dated_changes) * time / n)
    s = math.log(guess) if 0 < guess < math.inf else 0.0
    return math.exp(root(t, hit, undated, n, s, quiet, dated_changes, 0.0))
