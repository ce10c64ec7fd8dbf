"""Images: ten digits from scikit-learn, one likelihood of all classes, and what the model is not sure of."""

import numpy as np
from sklearn.datasets import load_digits

from streamgp import StreamGPClassifier

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.data))
X, y = digits.data[order].astype(np.float32), digits.target[order]
train, test = (X[:800], y[:800]), (X[800:], y[800:])

model = StreamGPClassifier(100, selection="kmeans", inference="fitc", multiclass="joint", random_state=0)
model.fit(*train)
score = model.evaluate_stream(test)
print(f"error {score.error:.3f}, log loss {score.log_loss:.3f}, calibration {score.calibration_error:.3f}")

p = model.predict_proba(test[0])
for row in np.argsort(p.max(axis=1))[:3]:
    best = np.argsort(-p[row])[:2]
    print(f"a {test[1][row]}: perhaps {best[0]} ({p[row, best[0]]:.2f}) or {best[1]} ({p[row, best[1]]:.2f})")
