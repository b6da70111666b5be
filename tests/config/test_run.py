from surelabel.config.run import RunConfig, steps_of


def test_steps_of_below_one_is_a_fraction():
    assert steps_of(0.025, 600) == 15
    assert steps_of(1024, 600) == 1024
    assert steps_of(1, 600) == 1
    assert steps_of(0.0001, 600) == 1


def test_run_config_folder_names_the_run():
    assert str(RunConfig(labels="10%", seed=3).folder) == "runs/fixmatch-phc-10pct-seed3"
    assert str(RunConfig(data="some/where/images.npz", labels=40).folder) == "runs/fixmatch-images-40-seed0"
    assert str(RunConfig(out="here").folder) == "here"
