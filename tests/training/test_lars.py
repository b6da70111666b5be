import copy
from math import cos

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from surelabel.training.lars import LARS
from surelabel.utils.errors import UserError

TRUSTED, PLAIN = [(5, 3), (4, 2, 3, 3), (1, 1), (7,)], [(5,), (4,), (1,)]


def parameters(shapes, seed=0, dtype=torch.float64):
    random = np.random.default_rng(seed)
    return [torch.nn.Parameter(torch.tensor(random.normal(size=shape), dtype=dtype)) for shape in shapes]


def groups_of(made):
    """The parameters in two groups of LARS: the first with decay and trust, the others with neither."""
    count = len(TRUSTED)
    return [{"params": made[:count], "weight_decay": 0.03}, {"params": made[count:], "weight_decay": 0.0, "trust": 0.0}]


def rate(step):
    return 0.5 + 0.4 * cos(step)


def training_step(optimizer, steps):
    """Steps with a changing rate and gradients of very different sizes, some None, that depend on the step only."""
    for step in steps:
        random = np.random.default_rng(1000 + step)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
            for position, p in enumerate(group["params"]):
                gradient = random.normal(size=p.shape) * 10.0 ** random.integers(-4, 1)
                p.grad = None if (step + position) % 5 == 4 else torch.tensor(gradient, dtype=p.dtype)
        optimizer.step()


def plain_step(w, g, velocity, lr, momentum, decay, trust):
    """LARS on one parameter in numpy: the new weights and velocity."""
    w_norm, g_norm = np.sqrt((w * w).sum()), np.sqrt((g * g).sum())
    if trust > 0:
        g = g + decay * w
        if w_norm > 0 and g_norm > 0:
            g = g * (trust * w_norm / (g_norm + decay * w_norm + 1e-8))
    velocity = g if velocity is None else momentum * velocity + g
    return w - lr * velocity, velocity


def test_lars_equals_a_plain_loop():
    made = parameters(TRUSTED + PLAIN)
    optimizer = LARS(groups_of(made), lr=1.0, trust=0.02)
    expected, velocities = [p.detach().numpy().copy() for p in made], [None] * len(made)
    for step in range(30):
        training_step(optimizer, [step])
        for i, p in enumerate(made):
            if p.grad is None:
                continue
            decay, trust = (0.03, 0.02) if i < len(TRUSTED) else (0.0, 0.0)
            w, g = expected[i], p.grad.numpy()
            expected[i], velocities[i] = plain_step(w, g, velocities[i], rate(step), 0.9, decay, trust)
        for p, w in zip(made, expected, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), w, rtol=0, atol=1e-12)


def test_lars_step_by_hand():
    (p,) = parameters([(2,)])
    p.data, p.grad = torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0])
    LARS([p], lr=10.0, weight_decay=0.2, trust=0.1).step()
    # |w| = 5, |g| = 2, so the ratio is .1 · 5 / (2 + .2 · 5) = 1/6, and g + .2 w = (.6, 2.8).
    torch.testing.assert_close(p.data, torch.tensor([3 - 1.0, 4 - 28 / 6]))


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 3.0), (3.0, 0.0)])
def test_lars_does_not_scale_if_a_norm_is_zero(weight, gradient):
    (p,) = parameters([(2, 2)])
    p.data.fill_(weight)
    p.grad = torch.full_like(p, gradient)
    LARS([p], lr=0.5, weight_decay=0.1).step()
    torch.testing.assert_close(p.data, torch.full_like(p, weight - 0.5 * (gradient + 0.1 * weight)))


@given(exponent=st.floats(-3, 6), seed=st.integers(0, 99))
def test_lars_ignores_the_size_of_the_gradient(exponent, seed):
    once, scaled = parameters(TRUSTED, seed), parameters(TRUSTED, seed)
    for a, b, g in zip(once, scaled, parameters(TRUSTED, seed + 100), strict=True):
        a.grad, b.grad = g.detach() / g.norm().item(), g.detach() / g.norm().item() * 10**exponent
    for made in (once, scaled):
        LARS(made, lr=1.0, trust=0.1).step()
    for a, b, start in zip(once, scaled, parameters(TRUSTED, seed), strict=True):
        torch.testing.assert_close(a - start, b - start, rtol=2e-5, atol=0)  # 1e-8 of the smallest norm, 1e-3
        assert (a - start).norm().item() == pytest.approx(0.1 * start.norm().item(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.0), (0.9, 0.01), (0.0, 0.0)])
def test_lars_without_trust_is_sgd(dtype, momentum, decay):
    made, expected = parameters(TRUSTED, dtype=dtype), parameters(TRUSTED, dtype=dtype)
    training_step(LARS(made, 1.0, momentum, decay, trust=0.0), range(10))
    training_step(torch.optim.SGD(expected, 1.0, momentum, weight_decay=decay), range(10))
    assert all(torch.equal(a, b) for a, b in zip(made, expected, strict=True))


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_lars_resumes_bit_for_bit(tmp_path, momentum):
    through = parameters(TRUSTED + PLAIN)
    training_step(LARS(groups_of(through), 1.0, momentum), range(20))

    first = parameters(TRUSTED + PLAIN)
    optimizer = LARS(groups_of(first), 1.0, momentum)
    training_step(optimizer, range(9))
    torch.save({"params": first, "optimizer": optimizer.state_dict()}, tmp_path / "saved")

    loaded = torch.load(tmp_path / "saved", weights_only=True)
    other = LARS([group | {"trust": 0.7} for group in groups_of(loaded["params"])], 3.0, momentum=0.1)
    other.load_state_dict(loaded["optimizer"])
    training_step(other, range(9, 20))
    assert all(torch.equal(a, b) for a, b in zip(through, loaded["params"], strict=True))


def test_lars_can_be_copied():
    optimizer = LARS(groups_of(parameters(TRUSTED + PLAIN)), 1.0)
    training_step(optimizer, range(3))
    copied = copy.deepcopy(optimizer)
    for each in (optimizer, copied):
        training_step(each, range(3, 6))
    for group, twin in zip(optimizer.param_groups, copied.param_groups, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(group["params"], twin["params"], strict=True))


def test_lars_step_keeps_gradients_and_settings():
    made = parameters(TRUSTED + PLAIN)
    optimizer = LARS(groups_of(made), 1.0, trust=0.02)
    for p in made:
        p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.step()
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in made)
    assert [(group["weight_decay"], group["trust"]) for group in optimizer.param_groups] == [(0.03, 0.02), (0.0, 0.0)]


def test_lars_skips_parameters_without_gradients():
    made = parameters(TRUSTED)
    optimizer = LARS(made, 1.0, weight_decay=0.1)
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(made, parameters(TRUSTED), strict=True))


def test_lars_added_group_gets_the_default_trust():
    first, second = parameters([(2,), (3,)])
    optimizer = LARS([first], 1.0, trust=0.3)
    optimizer.add_param_group({"params": [second]})
    assert [group["trust"] for group in optimizer.param_groups] == [0.3, 0.3]


def test_lars_returns_the_loss_of_a_closure():
    (p,) = parameters([(3, 2)])
    optimizer = LARS([p], 1.0)

    def closure():
        loss = p.square().sum()
        loss.backward()
        return loss.item()

    before = p.square().sum().item()
    assert optimizer.step(closure) == before
    assert p.square().sum().item() < before


def test_lars_runs_hooks_once_per_step():
    (p,) = parameters([(2,)])
    torch.optim.SGD([p])  # wraps SGD's step with hooks
    optimizer, calls = LARS([p], 1.0), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]


def test_lars_rejects_negative_trust():
    with pytest.raises(UserError, match=r"trust of parameter group 0 is -0\.1"):
        LARS(parameters(TRUSTED), 1.0, trust=-0.1)
    first, second = parameters([(2,), (3,)])
    with pytest.raises(UserError, match="trust of parameter group 1 is -1"):
        LARS([{"params": [first]}, {"params": [second], "trust": -1}], 1.0)
